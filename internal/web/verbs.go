package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
)

// option is a field of a form that sets an option of a verb.
type option struct {
	name string // name of the field
	flag string // flag of the command line; empty: the option is an argument. A trailing = joins it with its value
	set  func(a *operate.Asked, value string) error
	get  func(a *operate.Asked) []string
}

// form describes a verb that forms on a cluster's pages request. It covers all verbs except apply and upgrade, which askedOf parses itself.
type form struct {
	begin   func(a *operate.Asked)
	options []option
}

func text(name, flag string, of func(a *operate.Asked) *string) option {
	return option{name, flag, func(a *operate.Asked, v string) error { *of(a) = v; return nil }, func(a *operate.Asked) []string {
		if v := *of(a); v != "" {
			return []string{v}
		}
		return nil
	}}
}

func tick(name, flag string, of func(a *operate.Asked) *bool) option {
	return option{name, flag, func(a *operate.Asked, v string) error { *of(a) = v != ""; return nil }, func(a *operate.Asked) []string {
		if *of(a) {
			return []string{"yes"}
		}
		return nil
	}}
}

// machines returns the option for the machines that a verb acts on, which are arguments of its command.
func machines() option {
	return option{"machine", "", func(a *operate.Asked, v string) error {
		if !slices.Contains(a.Machines, v) {
			a.Machines = append(a.Machines, v)
		}
		return nil
	}, func(a *operate.Asked) []string { return a.Machines }}
}

func growCount() option {
	return option{"count", "--count", func(a *operate.Asked, v string) (err error) {
		if a.Grow.Count, err = strconv.Atoi(v); err != nil || a.Grow.Count < 1 || a.Grow.Count > 1000 {
			return fail.New(fail.Invalid, "count: %.20q is not a number from 1 to 1000", v)
		}
		return nil
	}, func(a *operate.Asked) []string { return []string{strconv.Itoa(a.Grow.Count)} }}
}

func rotates(name, flag string, of func(r *operate.Rotate) *bool) option {
	return tick(name, flag, func(a *operate.Asked) *bool { return of(a.Rotate) })
}

// chooseRotation sets the option that the select element names.
func chooseRotation(a *operate.Asked, what string) error {
	of, known := map[string]*bool{"all": &a.Rotate.All, "authorities": &a.Rotate.Authorities, "service-account": &a.Rotate.ServiceAccount, "encryption": &a.Rotate.Encryption, "ssh": &a.Rotate.SSH,
		"wireguard": &a.Rotate.WireGuard, "cloud-credential": &a.Rotate.CloudCredential,
		"finish": &a.Rotate.Finish, "abandon": &a.Rotate.Abandon}[what]
	if !known {
		return fail.New(fail.Invalid, "rotate: there is no %.40q", what)
	}
	*of = true
	return nil
}

// forms returns the verbs that forms on a cluster's pages request.
func forms() map[string]form {
	about := form{options: []option{machines()}}
	backup := text("backup", "--from", func(a *operate.Asked) *string { return &a.Backup })
	return map[string]form{
		"node add": {func(a *operate.Asked) { a.Grow = &operate.Grow{Count: 1} }, []option{text("pool", "--pool", func(a *operate.Asked) *string { return &a.Grow.Pool }),
			tick("control-plane", "--control-plane", func(a *operate.Asked) *bool { return &a.Grow.ControlPlane }), growCount()}},
		"node remove": about, "node replace": about, "node cordon": about, "node uncordon": about,
		"node drain": {func(a *operate.Asked) { a.Drain = &operate.Drain{} }, []option{machines(), tick("delete-emptydir-data", "--delete-emptydir-data", func(a *operate.Asked) *bool { return &a.Drain.DeleteEmptyDir }),
			tick("force", "--force", func(a *operate.Asked) *bool { return &a.Drain.Force })}},
		"machine reboot": about, "machine start": about, "machine stop": about,
		"update": {func(a *operate.Asked) { a.Update = &operate.Update{} }, []option{text("pool", "--pool", func(a *operate.Asked) *string { return &a.Update.Pool }),
			text("machine", "--machine", func(a *operate.Asked) *string { return &a.Update.Machine }), tick("reboot-only", "--reboot-only", func(a *operate.Asked) *bool { return &a.Update.RebootOnly }),
			tick("now", "--now", func(a *operate.Asked) *bool { return &a.Update.Now })}},
		operate.Repair:   {options: []option{text("machine", "--machine", func(a *operate.Asked) *string { return &a.Machine })}},
		operate.Renew:    {},
		"test":           {},
		"backup create":  {},
		"backup prune":   {},
		operate.Rehearse: {options: []option{text("backup", "", func(a *operate.Asked) *string { return &a.Backup })}},
		"backup restore": {func(a *operate.Asked) { a.Restore = &operate.Restore{Living: true} }, []option{backup}},
		"certs rotate": {func(a *operate.Asked) { a.Rotate = &operate.Rotate{} }, []option{
			{"rotate", "", chooseRotation, func(*operate.Asked) []string { return nil }}, // the select; the fields below carry its value from page to page
			rotates("all", "--all", func(r *operate.Rotate) *bool { return &r.All }), rotates("authorities", "--authorities", func(r *operate.Rotate) *bool { return &r.Authorities }),
			rotates("service-account", "--service-account", func(r *operate.Rotate) *bool { return &r.ServiceAccount }), rotates("ssh", "--ssh", func(r *operate.Rotate) *bool { return &r.SSH }),
			rotates("encryption", "--encryption", func(r *operate.Rotate) *bool { return &r.Encryption }), rotates("hold", "--hold", func(r *operate.Rotate) *bool { return &r.Hold }),
			rotates("finish", "--finish", func(r *operate.Rotate) *bool { return &r.Finish }), rotates("abandon", "--abandon", func(r *operate.Rotate) *bool { return &r.Abandon }),
			rotates("wireguard", "--wireguard", func(r *operate.Rotate) *bool { return &r.WireGuard }), rotates("cloud-credential", "--cloud-credential", func(r *operate.Rotate) *bool { return &r.CloudCredential })}},
		operate.Destroy: {options: []option{tick("keep-volumes", "--keep-volumes", func(a *operate.Asked) *bool { return &a.KeepVolumes })}},
	}
}

// askedBy parses the form of one of these verbs.
func askedBy(r *http.Request, verb string) (a operate.Asked, err error) {
	f, ok := forms()[verb]
	if !ok {
		return a, fail.New(fail.Invalid, "verb: these pages do not carry out %.40q", verb).Do("naupegos --server URL carries out all verbs")
	}
	a = operate.Asked{Verb: verb, Cluster: r.PathValue("name")}
	if f.begin != nil {
		f.begin(&a)
	}
	for _, o := range f.options {
		for _, v := range r.PostForm[o.name] {
			if v = strings.TrimSpace(v); v == "" {
				continue
			}
			if err := o.set(&a, v); err != nil {
				return a, err
			}
		}
	}
	_, err = a.Name()
	return a, err
}

// fieldsBy returns the fields of a form that repeats a request.
func fieldsBy(a *operate.Asked) (all []field) {
	for _, o := range forms()[a.Verb].options {
		for _, v := range o.get(a) {
			all = append(all, field{o.name, v})
		}
	}
	return all
}

// commandBy returns the command line for a request.
func commandBy(name string, a *operate.Asked) string {
	line := "naupegos " + a.Verb + " " + quote(name)
	for _, o := range forms()[a.Verb].options {
		for _, v := range o.get(a) {
			switch {
			case o.flag == "":
				line += " " + quote(v)
			case v == "yes":
				line += " " + o.flag
			case o.name == "count" && v == "1":
			default:
				line += " " + o.flag + between(v) + quote(v)
			}
		}
	}
	if a.Restore != nil && a.Restore.Living {
		line += " --consent replace-data"
	}
	return line
}

// verbForm is a button that plans a verb for one machine.
type verbForm struct {
	Cluster, Verb, Field, Machine, Text, Command string
	Danger                                       bool
}

// verbOf returns, for templates, a button that plans a verb for one machine.
func verbOf(cluster, verb, machine, text string) verbForm {
	return verbForm{cluster, verb, "machine", machine, text, "naupegos " + verb + " " + quote(cluster) + " " + quote(machine), verb == "node remove" || verb == "node replace" || verb == "machine stop"}
}

// chosen is a select element for machines.
type chosen struct {
	ID, Name string
	Optional bool
	Options  []string
}

// choose returns, for templates, a select element for machines.
func choose(id, name string, optional bool, options []string) chosen {
	return chosen{id, name, optional, options}
}
