package addon

import (
	"encoding/json"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
)

// DeschedulerNamespace is the namespace of the addon descheduler.
const DeschedulerNamespace = "descheduler"

// DeschedulerPort is the port at which the descheduler serves its metrics, with TLS.
const DeschedulerPort = "10258"

func descheduler(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, catalogue.Descheduler, a.Name)
	if err != nil {
		return nil, err
	}
	d := a.Descheduler
	has := map[string]bool{}
	for _, p := range d.Policies {
		has[p] = true
	}
	onNodes := "" // the class whose volumes are bound to a node: a pod that uses one would come back
	if l := in.Doc.Addon(NameLocalPath); l != nil {
		onNodes = l.LocalPath.StorageClass
	}
	staying := slices.Concat([]string{Namespace}, d.ExcludedNamespaces)
	slices.Sort(staying)
	values := map[string]any{
		"Image": ref, "Interval": d.Interval.String(), "DryRun": d.DryRun, "Has": has, "Low": d.LowNodeUtilization, "Soft": d.SoftTopologySpread,
		"PodLifeTime": int(d.PodLifeTime.Seconds()), "Staying": slices.Compact(staying), "MinReplicas": d.MinReplicas, "MaxEvictions": d.MaxEvictions,
		"LocalStorage": d.EvictLocalStorage, "Volumes": d.EvictVolumes, "OnNodes": onNodes,
		"ControlPlane": in.Doc.WorkerCount() == 0 || in.Doc.Spec.ControlPlane.Schedulable,
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render the manifest of %s", a.Name)
	}
	values["Checksum"] = checksum(text)
	return render(a.Name, deschedulerManifest, values)
}
