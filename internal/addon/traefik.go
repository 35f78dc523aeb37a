package addon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
)

// TraefikNamespace is the namespace of the addon traefik, and TraefikService its Service there.
const (
	TraefikNamespace = "traefik"
	TraefikService   = "traefik"
)

// The classes of Traefik's Ingresses and Gateways, and that of ingress-nginx.
const (
	ClassTraefik = "traefik"
	ClassNGINX   = "nginx"
)

// The groups of definitions that the addon traefik leaves out unless they are wanted.
const (
	groupGateways = "gateway.networking.k8s.io"
	groupTraefik  = "traefik.io"
)

// A pod that ends serves for draining longer, until no node sends it requests any more, and then completes those that it has.
const draining, completing = 10 * time.Second, 30 * time.Second

// entryPoint is a port of Traefik's pods, and of its Service.
type entryPoint struct {
	Name     string
	Port     int
	Protocol string // as Kubernetes writes it
	NodePort int    // 0: the API server chooses it, if the Service has node ports
	HostPort int    // 0: none
}

func traefik(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, catalogue.Traefik, a.Name)
	if err != nil {
		return nil, err
	}
	t := a.Traefik
	definitions, err := in.Definitions(a.Name)
	if err != nil {
		return nil, err
	}
	var unwanted []string
	if !t.GatewayAPI {
		unwanted = append(unwanted, groupGateways)
	}
	if !t.CustomResources {
		unwanted = append(unwanted, groupTraefik)
	}
	annotations, err := annotationLines(t.Annotations)
	if err != nil {
		return nil, err
	}
	serviceType := map[string]string{v1alpha1.ExposeHostPort: "ClusterIP"}
	var args []string
	for _, arg := range traefikArgs(in.Doc, t) {
		args = append(args, quoted(arg))
	}
	out, err := render(a.Name, traefikManifest, map[string]any{
		"Image": ref, "Args": args, "Replicas": t.Replicas, "Annotations": annotations, "Ports": entryPoints(t), "HealthPort": v1alpha1.TraefikHealthPort,
		"ServiceType": cmp.Or(serviceType[t.Expose], t.Expose), "HostPort": t.Expose == v1alpha1.ExposeHostPort, "KeepClientAddress": t.KeepClientAddress,
		"DefaultClass": t.DefaultClass != nil && *t.DefaultClass, "GatewayAPI": t.GatewayAPI, "IngressNGINX": t.IngressNGINX, "CustomResources": t.CustomResources,
		"MinTLS": strings.NewReplacer("TLS", "VersionTLS", ".", "").Replace(t.MinTLS), "Certificate": t.DefaultCertificate, "NoWorkers": in.Doc.WorkerCount() == 0,
	})
	return slices.Concat(without(definitions, unwanted), []byte("---\n"), out), err
}

// entryPoints returns the ports of Traefik's pods for clients.
func entryPoints(t *v1alpha1.Traefik) []entryPoint {
	out := []entryPoint{{Name: "web", Port: v1alpha1.HTTPPort, Protocol: "TCP"}, {Name: "websecure", Port: v1alpha1.HTTPSPort, Protocol: "TCP"}}
	switch t.Expose {
	case v1alpha1.ExposeNodePort:
		out[0].NodePort, out[1].NodePort = t.HTTPPort, t.HTTPSPort
	case v1alpha1.ExposeHostPort:
		out[0].HostPort, out[1].HostPort = t.HTTPPort, t.HTTPSPort
	}
	for _, e := range t.EntryPoints {
		p := entryPoint{Name: e.Name, Port: e.Port, Protocol: strings.ToUpper(e.Protocol), NodePort: e.NodePort}
		if t.Expose == v1alpha1.ExposeHostPort {
			p.HostPort = e.Port
		}
		out = append(out, p)
	}
	return out
}

// traefikArgs returns the arguments of Traefik's program. Nothing enables its dashboard or its API.
func traefikArgs(doc *v1alpha1.Cluster, t *v1alpha1.Traefik) []string {
	const published = TraefikNamespace + "/" + TraefikService
	args := []string{"--global.checknewversion=false", "--global.sendanonymoususage=false", "--log.level=INFO", "--log.nocolor=true",
		fmt.Sprintf("--entrypoints.traefik.address=:%d/tcp", v1alpha1.TraefikHealthPort), "--ping=true", "--ping.entrypoint=traefik", "--metrics.prometheus=true", "--metrics.prometheus.entrypoint=traefik",
		"--providers.file.directory=/etc/traefik/dynamic", "--providers.kubernetesingress=true", "--providers.kubernetesingress.ingressclass=" + ClassTraefik,
		"--providers.kubernetesingress.strictprefixmatching=true", "--providers.kubernetesingress.allowemptyservices=true"}
	status := t.Expose != v1alpha1.ExposeHostPort // the Service says at which addresses Ingresses are reached
	if status {
		args = append(args, "--providers.kubernetesingress.ingressendpoint.publishedservice="+published)
	}
	if t.GatewayAPI {
		args = append(args, "--providers.kubernetesgateway=true")
		if status {
			args = append(args, "--providers.kubernetesgateway.statusaddress.service.namespace="+TraefikNamespace, "--providers.kubernetesgateway.statusaddress.service.name="+TraefikService)
		}
	}
	if t.IngressNGINX {
		args = append(args, "--providers.kubernetesingressnginx=true")
		if status {
			args = append(args, "--providers.kubernetesingressnginx.publishservice="+published)
		}
	}
	if t.CustomResources {
		// The names of objects in annotations are those that Traefik's manual has. Users of other namespaces must not change what holds for all names.
		args = append(args, "--providers.kubernetescrd=true", "--providers.kubernetescrd.allowemptyservices=true", "--providers.kubernetescrd.safenaming=false",
			"--providers.kubernetescrd.defaulttlsresourcesnamespace="+TraefikNamespace)
	}
	if t.AccessLog {
		args = append(args, "--accesslog=true", "--accesslog.format=json")
	}
	for _, p := range entryPoints(t) {
		args = append(args, entryPointArgs(t, p)...)
	}
	if t.RedirectToHTTPS {
		args = append(args, "--entrypoints.web.http.redirections.entrypoint.to="+redirectTarget(doc, t))
	}
	return args
}

// entryPointArgs returns the arguments of one port.
func entryPointArgs(t *v1alpha1.Traefik, p entryPoint) []string {
	of := "--entrypoints." + p.Name
	args := []string{fmt.Sprintf("%s.address=:%d/%s", of, p.Port, strings.ToLower(p.Protocol))}
	if p.Protocol != "TCP" {
		return args
	}
	args = append(args, of+".transport.lifecycle.requestacceptgracetimeout="+draining.String(), of+".transport.lifecycle.gracetimeout="+completing.String(),
		of+".transport.respondingtimeouts.readtimeout="+t.ReadTimeout.String(),
		// A header like X_Forwarded_For could pass for one that Traefik sets.
		of+".http.aliasheadersstrategy=delete")
	switch p.Name { // others serve only what names them
	case "web":
		args = append(args, of+".asdefault=true")
	case "websecure":
		args = append(args, of+".asdefault=true", of+".http.tls=true")
	}
	if len(t.TrustedProxies) > 0 {
		trusted := strings.Join(t.TrustedProxies, ",")
		args = append(args, of+".forwardedheaders.trustedips="+trusted)
		if t.ProxyProtocol {
			args = append(args, of+".proxyprotocol.trustedips="+trusted)
		}
	}
	return args
}

// redirectTarget returns the port of HTTPS as clients see it.
func redirectTarget(doc *v1alpha1.Cluster, t *v1alpha1.Traefik) string {
	if t.Expose == v1alpha1.ExposeLoadBalancer || t.Expose == v1alpha1.ExposeNodePort && doc.Spec.Endpoint.IngressWanted() != nil {
		return "websecure"
	}
	return fmt.Sprintf(":%d", t.HTTPSPort)
}

// annotationLines renders annotations as lines of YAML.
func annotationLines(all map[string]string) ([]string, error) {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		v, err := json.Marshal(all[k]) // JSON is YAML
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "render annotation %s", k)
		}
		out = append(out, k+": "+string(v))
	}
	return out, nil
}

// without leaves out the definitions of groups.
func without(definitions []byte, groups []string) []byte {
	const mark = "\n---\n"
	documents := strings.Split("\n"+strings.TrimSuffix(string(definitions), "\n"), mark)
	documents = slices.DeleteFunc(documents, func(d string) bool {
		return slices.ContainsFunc(groups, func(g string) bool { return strings.Contains(d, "\n  group: "+g+"\n") })
	})
	return []byte(strings.TrimPrefix(strings.Join(documents, mark), "\n") + "\n")
}
