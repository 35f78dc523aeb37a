package v1alpha1

import (
	"reflect"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1/change"
)

// addComponents adds the rules for the settings of Kubernetes' and etcd's programs: any change restarts the program, one machine after another.
func addComponents(r change.Rules) {
	restarts := map[string]string{
		"spec.kubernetes.apiServer":         "the API servers restart",
		"spec.kubernetes.controllerManager": "the controller managers restart",
		"spec.kubernetes.scheduler":         "the schedulers restart",
		"spec.kubernetes.kubelet":           "the kubelets restart; pods stay",
		"spec.kubernetes.kubeProxy":         "the pods of kube-proxy are replaced",
		"spec.workers[].kubelet":            "the kubelets of the pool restart; pods stay",
	}
	for place, t := range map[string]reflect.Type{
		"spec.kubernetes.apiServer": reflect.TypeFor[APIServer](), "spec.kubernetes.controllerManager": reflect.TypeFor[ControllerManager](),
		"spec.kubernetes.scheduler": reflect.TypeFor[Scheduler](), "spec.kubernetes.kubelet": reflect.TypeFor[Kubelet](),
		"spec.kubernetes.kubeProxy": reflect.TypeFor[KubeProxy](), "spec.workers[].kubelet": reflect.TypeFor[Kubelet](),
	} {
		for _, f := range strict.FieldsOf(t) {
			r[strict.Join(place, f.Key)] = change.Rule{Class: change.Rolling, Say: restarts[place]}
		}
	}
	for _, key := range []string{"url", "ca", "auth", "auth.credentialsFile", "auth.credential"} {
		r["spec.kubernetes.apiServer.auditWebhook."+key] = change.Rule{Class: change.Rolling, Say: restarts["spec.kubernetes.apiServer"]}
	}
	for _, key := range []string{"featureGates", "quotaBackendGiB", "heartbeatMilliseconds", "electionMilliseconds", "extraArgs"} {
		r["spec.etcd."+key] = change.Rule{Class: change.Rolling, Say: "the members restart"}
	}
}
