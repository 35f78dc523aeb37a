package bed

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// services lists all services in the order of their start. Each starts when its dependencies are ready.
func (b *Bed) services() []*Service {
	nova := b.conf("nova", "nova.conf")
	cinder := b.conf("cinder", "cinder.conf")
	neutron := append(b.conf("neutron", "neutron.conf"), b.conf("neutron", "ml2_conf.ini")...)
	core := []string{"mariadb", "rabbitmq"}
	compute := []string{"/usr/bin/python3", "-m", "naupegos_bed.compute", b.ConsoleDir(), nova[1]}
	for _, h := range Hosts {
		compute = append(compute, filepath.Join(b.etc(), "nova", h.Name+".conf"))
	}
	all := []*Service{
		b.mariadb(),
		{Name: "memcached", args: []string{"memcached", "-u", "memcache", "-l", "127.0.0.1", "-p", strconv.Itoa(inner.Memcached), "-m", "64"}, ports: []string{local(inner.Memcached)}},
		{Name: "epmd", args: []string{"epmd", "-address", "127.0.0.1", "-port", strconv.Itoa(inner.Epmd)}, ports: []string{local(inner.Epmd)}},
		b.rabbitmq(),
		b.wsgi("keystone", 5000, "/usr/bin/keystone-wsgi-public", "keystone.conf", 3, 1), // with more threads, Keystone (Zed) misses roles of tokens
		b.wsgi("placement", 8778, "/usr/bin/placement-api", "placement.conf", 1, 4),
		{Name: "nova-conductor", args: append([]string{"nova-conductor"}, nova...), needs: core, ready: reported(b, "nova", "nova-conductor", 1)},
		{Name: "nova-compute", args: compute, needs: append(core, "keystone", "placement"), ready: reported(b, "nova", "nova-compute", len(Hosts))},
		{Name: "neutron-server", args: append([]string{"neutron-server"}, neutron...), needs: core, ports: []string{b.api(9696)}},
		{Name: "nova-scheduler", args: append([]string{"nova-scheduler"}, nova...), needs: core, ready: reported(b, "nova", "nova-scheduler", 1)},
		{Name: "cinder-volume", args: append([]string{"cinder-volume"}, cinder...), needs: core, ready: reported(b, "cinder", "cinder-volume", volumeBackends)},
		{Name: "cinder-scheduler", args: append([]string{"cinder-scheduler"}, cinder...), needs: core, ready: b.schedulesVolumes},
		{Name: "nova-api", args: append([]string{"nova-api"}, nova...), needs: core, ports: []string{b.api(8774), b.api(8775)}},
		{Name: "cinder-api", args: append([]string{"cinder-api"}, cinder...), needs: core, ports: []string{b.api(8776)}},
		{Name: "glance-api", args: append([]string{"glance-api"}, b.conf("glance", "glance-api.conf")...), needs: core, ports: []string{b.api(9292)}},
		b.wsgi("octavia-api", 9876, "/usr/bin/octavia-wsgi", "octavia.conf", 1, 4),
		{Name: "octavia-worker", args: append([]string{"octavia-worker"}, b.conf("octavia", "octavia.conf")...), needs: core, ready: b.consumes("octavia-worker")},
		haproxy(b),
	}
	all = append(all, designate(b)...)
	for _, s := range all {
		s.b = b
		if s.ready == nil {
			s.ready = s.listens
		}
	}
	return all
}

// conf returns the arguments that name a service's configuration file.
func (b *Bed) conf(service, file string) []string {
	return []string{"--config-file", filepath.Join(b.etc(), service, file)}
}

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func (b *Bed) api(port int) string { return fmt.Sprintf("%s:%d", b.o.Address, port) }

func (b *Bed) socket() string { return filepath.Join(b.state(), "mysql", "socket") }

// mariadb does not sync to disk, because the state may be lost in a power cut.
func (b *Bed) mariadb() *Service {
	dir := filepath.Join(b.state(), "mysql")
	return &Service{Name: "mariadb", ports: []string{local(inner.Database)}, ready: b.answersSQL, args: []string{
		"mariadbd", "--no-defaults", "--user=mysql", "--datadir=" + dir, "--socket=" + b.socket(), "--pid-file=" + filepath.Join(dir, "pid"),
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(inner.Database), "--skip-log-bin", "--skip-name-resolve", "--character-set-server=utf8mb3",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-flush-method=nosync", "--innodb-log-file-size=32M",
		"--innodb-buffer-pool-size=192M", "--performance-schema=0", "--max-connections=600",
	}}
}

func (b *Bed) rabbitmq() *Service {
	dir := filepath.Join(b.state(), "rabbitmq")
	return &Service{
		Name: "rabbitmq", needs: []string{"epmd"}, ports: []string{local(inner.Broker), local(inner.BrokerNodes)},
		args: []string{"setpriv", "--reuid=rabbitmq", "--regid=rabbitmq", "--init-groups", "/usr/lib/rabbitmq/bin/rabbitmq-server"},
		env: []string{
			"HOME=" + dir, "TMPDIR=" + dir, "RUNNING_UNDER_SYSTEMD=yes", // the last one makes the script exec the server
			"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + strconv.Itoa(inner.Epmd), "RABBITMQ_DIST_PORT=" + strconv.Itoa(inner.BrokerNodes),
			"RABBITMQ_NODENAME=naupegos@localhost", "RABBITMQ_CONFIG_FILE=" + filepath.Join(b.etc(), "rabbitmq", "rabbitmq.conf"),
			"RABBITMQ_MNESIA_BASE=" + dir, "RABBITMQ_LOG_BASE=" + dir, "RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "enabled_plugins"),
			"RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"), "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none",
		},
	}
}

// wsgi returns a service that runs in a WSGI server with the given numbers of processes and of threads in each.
func (b *Bed) wsgi(name string, port int, script, config string, processes, threads int) *Service {
	service := configs[config]
	dir, upper := filepath.Join(b.etc(), service), strings.ToUpper(service)
	return &Service{
		Name: name, needs: []string{"mariadb", "memcached"}, ports: []string{b.api(port)},
		env: []string{"OS_" + upper + "_CONFIG_DIR=" + dir, "OS_" + upper + "_CONFIG_FILES=" + filepath.Join(dir, config)},
		args: []string{
			"uwsgi_python3", "--master", "--need-app", "--die-on-term", "--lazy-apps", "--enable-threads", "--thunder-lock", "--disable-logging",
			"--buffer-size", "65535", "--processes", strconv.Itoa(processes), "--threads", strconv.Itoa(threads), "--http-socket", b.api(port), "--wsgi-file", script,
			// The server closes connections without this header, and clients would see resets.
			"--add-header", "Connection: close",
			"--pyargv", "--config-file " + filepath.Join(dir, config),
		},
	}
}
