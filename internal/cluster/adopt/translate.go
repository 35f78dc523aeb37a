package adopt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/release/flags"
)

// setting is a setting of the owner's that the document may be able to hold.
type setting struct {
	program string // of the tables of flags
	pool    string // for kubelets: the pool, or empty for control-plane machines
	target  string // field of the program's part of the document; empty: a flag for extraArgs, or a field of the configuration file
	name    string // of the flag or of the field
	flag    bool
	value   any // for target and for a configuration file's field; the text of a flag
}

// translate moves the owner's settings into the document as far as it can hold them: those on which all machines of a kind agree, and which the document's
// validation accepts. The comparison names the rest.
func (d *drafting) translate(all []comparison) error {
	p, err := d.params()
	if err != nil {
		return err
	}
	var list []setting
	for _, c := range all {
		ours, err := c.ours(p)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(c.theirs)) {
			if value, set := ours[name]; set && same(name, value, c.theirs[name]) || slices.Contains(c.neutral, name) && !c.keeps(name) {
				continue
			}
			if s, ok := c.setting(name, ours[name]); ok {
				list = append(list, s)
			}
		}
	}
	list = d.agreed(append(list, d.certSANs()...), all)
	list = append(list, d.oidc()...)
	if len(list) == 0 {
		return nil
	}
	bare := d.want.Spec
	valid := func(list []setting) (complaints int, err error) {
		if d.want.Spec, err = d.holding(bare, list); err != nil {
			return 0, err
		}
		text, err := d.want.Marshal()
		if err != nil {
			return 0, err
		}
		if _, err := validation.Parse("the document", text); err != nil {
			complaints = strings.Count(err.Error(), "\n") + 1
		}
		return complaints, nil
	}
	complaints, err := valid(list)
	for i := len(list) - 1; i >= 0 && err == nil && complaints > 0; i-- {
		without := slices.Delete(slices.Clone(list), i, i+1)
		n, failed := valid(without)
		if err = failed; n < complaints {
			list, complaints = without, n
		}
	}
	if err != nil {
		return err
	}
	if complaints > 0 { // they depend on each other
		list = nil
	}
	if _, err := valid(list); err != nil {
		return err
	}
	d.held = list
	return d.finish()
}

// setting returns the setting of the document that a flag or a field stands for. now is what naupegos sets without it.
func (c comparison) setting(name, now string) (setting, bool) {
	s := setting{program: c.program, pool: c.pool, name: name, flag: c.fields == nil, value: c.theirs[name]}
	instead := flags.Instead(c.program, name)
	if !s.flag {
		instead, s.value = flags.InsteadOfField(c.program, name), c.fields[name]
	}
	field := strings.HasPrefix(instead, "spec.") && !strings.ContainsAny(strings.TrimPrefix(instead, part(c.program)), "[].")
	switch {
	case c.program == flags.KubeProxy && name == "ipvs": // no document has this mode
		return s, false
	case instead == "":
		_, isText := s.value.(string)
		return s, !s.flag || isText
	case !field:
		return s, false
	}
	s.target = strings.TrimPrefix(instead, part(c.program))
	var ok bool
	switch s.value, ok = c.converted(s.target, name, s.value); {
	case !ok:
		return s, false
	case s.target == "enableAdmissionPlugins" && now != "":
		ours := strings.Split(now, ",")
		s.value = slices.DeleteFunc(s.value.([]string), func(p string) bool { return slices.Contains(ours, p) || slices.Contains(usualPlugins, p) })
		return s, len(s.value.([]string)) > 0
	}
	return s, true
}

// part is the path of a program's part of the document.
func part(program string) string {
	switch program {
	case flags.APIServer:
		return "spec.kubernetes.apiServer."
	case flags.ControllerManager:
		return "spec.kubernetes.controllerManager."
	case flags.Scheduler:
		return "spec.kubernetes.scheduler."
	case flags.Kubelet:
		return "spec.kubernetes.kubelet."
	case flags.KubeProxy:
		return "spec.kubernetes.kubeProxy."
	}
	return "spec.etcd."
}

// partOf returns a program's part of a document.
func partOf(spec *v1alpha1.Spec, program string) any {
	k := &spec.Kubernetes
	switch program {
	case flags.APIServer:
		return &k.APIServer
	case flags.ControllerManager:
		return &k.ControllerManager
	case flags.Scheduler:
		return &k.Scheduler
	case flags.Kubelet:
		return &k.Kubelet
	case flags.KubeProxy:
		return &k.KubeProxy
	}
	return &spec.Etcd
}

// converted returns the value of a field of the document for the value of a flag or of a configuration file's field; false if it has none.
func (c comparison) converted(target, name string, value any) (any, bool) {
	text, isText := value.(string)
	switch {
	case target == "quotaBackendGiB":
		value = wholeGiB(text)
	case target == "swapBehavior":
		swap, _ := value.(map[string]any)
		value = swap["swapBehavior"]
	case target == "config" || target == "admissionConfig":
		data := c.files[text]
		if len(data) == 0 {
			return nil, false
		}
		value = string(data)
		if target == "config" {
			value = withoutOwned(data, c.program)
		}
	case isText && c.fields == nil:
		value = parsed(reflect.TypeOf(partOf(&v1alpha1.Spec{}, c.program)).Elem(), target, text)
	}
	return value, value != nil && fill(partOf(&v1alpha1.Spec{}, c.program), map[string]any{target: value}) == nil
}

// fill sets fields of a part of the document by their names in documents.
func fill(into any, fields map[string]any) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// withoutOwned returns a configuration file without the fields that documents may not set.
func withoutOwned(data []byte, program string) any {
	var fields map[string]any
	if yaml.Unmarshal(data, &fields) != nil {
		return nil
	}
	maps.DeleteFunc(fields, func(name string, v any) bool {
		return name == "apiVersion" || name == "kind" || flags.InsteadOfField(program, name) != "" || essential(v) == nil
	})
	if len(fields) == 0 {
		return nil
	}
	text, err := yaml.Marshal(fields)
	if err != nil {
		return nil
	}
	return string(text)
}

// agreed returns the settings, once each, that all machines of a kind have alike.
func (d *drafting) agreed(list []setting, all []comparison) (out []setting) {
	machines := map[[2]string]map[string]bool{} // by program and pool: who runs it
	for _, c := range all {
		key := [2]string{c.program, c.pool}
		if machines[key] == nil {
			machines[key] = map[string]bool{}
		}
		machines[key][c.where] = true
	}
	alike := map[string]int{}
	for _, s := range list {
		text := fmt.Sprintf("%#v", s) // with maps in the order of their keys
		alike[text]++
		all := len(machines[[2]string{s.program, s.pool}])
		if s.name == certSANs {
			all = 1
		}
		if alike[text] == all {
			out = append(out, s)
		}
	}
	return out
}

// holding returns a document's spec with settings.
func (d *drafting) holding(spec v1alpha1.Spec, list []setting) (v1alpha1.Spec, error) {
	spec.Workers = slices.Clone(spec.Workers)
	byPart := map[[2]string][]setting{}
	for _, s := range list {
		if s.program == issuers {
			spec.Identity.Issuers = []v1alpha1.IdentityIssuer{s.value.(v1alpha1.IdentityIssuer)}
			continue
		}
		key := [2]string{s.program, s.pool}
		byPart[key] = append(byPart[key], s)
	}
	kubelets := map[string]v1alpha1.Kubelet{}
	for key, settings := range byPart {
		fields, err := assembled(settings)
		if err != nil {
			return spec, err
		}
		var k v1alpha1.Kubelet
		if key[0] == flags.Kubelet {
			err = fill(&k, fields)
			kubelets[key[1]] = k
		} else {
			err = fill(partOf(&spec, key[0]), fields)
		}
		if err != nil {
			return spec, err
		}
	}
	placeKubelets(&spec, kubelets)
	return spec, nil
}

// assembled returns the fields of a program's part of the document.
func assembled(settings []setting) (map[string]any, error) {
	fields, config, args := map[string]any{}, map[string]any{}, []v1alpha1.Arg{}
	for _, s := range settings {
		switch {
		case s.name == certSANs:
			list, _ := fields[s.target].([]any)
			fields[s.target] = append(list, s.value)
		case s.target != "":
			fields[s.target] = s.value
		case s.flag:
			args = append(args, v1alpha1.Arg{Name: s.name, Value: s.value.(string)})
		default:
			config[s.name] = s.value
		}
	}
	if len(args) > 0 {
		fields["extraArgs"] = args
	}
	if len(config) > 0 {
		text, err := yaml.Marshal(config)
		if err != nil {
			return nil, err
		}
		fields["config"] = string(text)
	}
	return fields, nil
}

// placeKubelets writes the kubelets' settings into the document. What all machines have alike is the cluster's; a pool overrides the rest, but it can't
// leave out what the cluster sets: a setting that only some pools have in common with the control plane becomes theirs alone.
func placeKubelets(spec *v1alpha1.Spec, by map[string]v1alpha1.Kubelet) {
	of := func(pool string, field int) reflect.Value { return reflect.ValueOf(by[pool]).Field(field) }
	cluster := reflect.ValueOf(&spec.Kubernetes.Kubelet).Elem()
	for i := range cluster.NumField() {
		plane, lacks := of("", i), false
		for _, p := range spec.Workers {
			lacks = lacks || of(p.Name, i).IsZero()
		}
		if !plane.IsZero() && !lacks {
			cluster.Field(i).Set(plane)
		}
		for w := range spec.Workers {
			p := &spec.Workers[w]
			if v := of(p.Name, i); !v.IsZero() && !reflect.DeepEqual(v.Interface(), cluster.Field(i).Interface()) {
				reflect.ValueOf(&p.Kubelet).Elem().Field(i).Set(v)
			}
		}
	}
}

// keeps reports whether the document takes over the owner's value of a neutral setting.
func (c comparison) keeps(name string) bool {
	return c.program == flags.KubeProxy && (name == "mode" || name == "conntrack")
}

// withoutHeld removes settings from both sides that the document holds in another form than a comparison shows.
func (d *drafting) withoutHeld(c comparison, ours map[string]string) {
	for _, s := range d.held {
		switch {
		case s.program == issuers && c.program == flags.APIServer:
			for _, name := range oidcFlags {
				delete(c.theirs, name)
			}
		case s.program == c.program && s.flag && (s.target == "config" || s.target == "admissionConfig"):
			delete(c.theirs, s.name)
			delete(ours, s.name)
		}
	}
}

// certSANs is the name of settings that are names in the API servers' certificates.
const certSANs = "certSANs"

func (d *drafting) certSANs() (list []setting) {
	for _, san := range d.sans {
		list = append(list, setting{program: flags.APIServer, target: certSANs, name: certSANs, value: san})
	}
	return list
}

// lostNames reports names in the API servers' certificates that the document does not hold.
func (d *drafting) lostNames() {
	lost := slices.DeleteFunc(slices.Clone(d.sans), func(san string) bool {
		return slices.ContainsFunc(d.held, func(s setting) bool { return s.name == certSANs && s.value == san })
	})
	if len(lost) > 0 {
		d.gaps = append(d.gaps, Gap{Kind: Lost, Where: whole, What: "names in the API servers' certificates that no document can hold: " + strings.Join(lost, ", "),
			Restarts: "API servers, one after another", Do: "make clients use the endpoint, " + d.conf.ControlPlaneEndpoint})
	}
}
