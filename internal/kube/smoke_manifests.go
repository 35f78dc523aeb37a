package kube

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// restricted is the security context that the "restricted" pod security standard asks for.
const restricted = `{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, runAsNonRoot: true, runAsUser: 65532, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}`

// smokeNamespace is a test's namespace and the account that its pods run as. The account is our own, so that nothing waits for
// the controller that makes default ones.
func smokeNamespace(name string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata:
  name: %[1]s
  labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/enforce-version: latest}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: echo, namespace: %[1]s}
automountServiceAccountToken: false
---
`, name)
}

// smokeManifests returns the server side of the smoke test.
func smokeManifests(image string, backends []string, nodePort bool) string {
	kind := "ClusterIP"
	if nodePort {
		kind = "NodePort"
	}
	var terms strings.Builder // one a node: a field may be matched with one value only, terms are alternatives
	for _, node := range backends {
		fmt.Fprintf(&terms, "              - matchFields: [{key: metadata.name, operator: In, values: [%s]}]\n", node)
	}
	return smokeNamespace(SmokeNamespace) + fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: echo, namespace: %[1]s}
spec:
  type: %[6]s
  selector: {app: echo}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo, namespace: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      serviceAccountName: echo
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 1
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
%[4]s        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: echo}}}
      containers:
        - name: echo
          image: %[2]q
          imagePullPolicy: IfNotPresent
          ports: [{containerPort: 8080}]
          resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
          securityContext: %[5]s
`, SmokeNamespace, image, len(backends), terms.String(), restricted, kind)
}

// smokeClient returns a pod bound to one node, whatever its taints, that requests each URL until it gets an answer. It starts at the same time as
// cluster DNS: kube-proxy refuses requests to a Service without endpoints, but the kernel sends only six such refusals at once and then one
// a second. Further queries are dropped silently and wait for the resolver's timeout, by default 5 s.
func smokeClient(image, node string, urls map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Pod
metadata: {name: client, namespace: %s, labels: {app: client}}
spec:
  nodeName: %s
  restartPolicy: Never
  serviceAccountName: echo
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  dnsConfig: {options: [{name: timeout, value: "1"}]}
  containers:
`, SmokeNamespace, node)
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		fmt.Fprintf(&b, `    - name: %s
      image: %q
      imagePullPolicy: IfNotPresent
      command: [/echo, get, %q]
      terminationMessagePolicy: FallbackToLogsOnError
      resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
      securityContext: %s
`, name, image, urls[name], restricted)
	}
	return b.String()
}

// bracketed returns an address in the form that URLs need: IPv6 in brackets.
func bracketed(address string) string {
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() {
		return "[" + address + "]"
	}
	return address
}

// cloudSmokeServer is the pod behind the load balancer; it answers with its name.
const cloudSmokeServer = "echo"

// cloudSmokeService asks the cloud for a load balancer.
func cloudSmokeService(image string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: echo, namespace: %[1]s}
spec:
  type: LoadBalancer
  selector: {app: echo}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
`, CloudSmokeNamespace) + cloudSmokePod(cloudSmokeServer, image, "")
}

// cloudSmokePod is an echo server, with more of its specification.
func cloudSmokePod(name, image, more string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[2]s, namespace: %[1]s, labels: {app: %[2]s}}
spec:
  serviceAccountName: echo
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 1
  containers:
    - name: echo
      image: %[3]q
      imagePullPolicy: IfNotPresent
      ports: [{containerPort: 8080}]
      resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
      securityContext: %[4]s
%[5]s`, CloudSmokeNamespace, name, image, restricted, more)
}

// cloudSmokeManifests renders the objects that request the cloud's resources, and returns the resources' names.
func cloudSmokeManifests(o CloudSmokeOptions) (manifests, names string) {
	var ask, what []string
	if !o.NoLoadBalancer {
		ask, what = append(ask, cloudSmokeService(o.Image)), append(what, "load balancer")
	}
	if !o.NoVolume {
		ask, what = append(ask, cloudSmokeVolume(o.Image, o.StorageClass)), append(what, "volume")
	}
	return smokeNamespace(CloudSmokeNamespace) + strings.Join(ask, "---\n"), strings.Join(what, " and ")
}

// cloudSmokeVolume asks the cloud for a volume. A pod claims it, for zones are chosen by where it runs.
func cloudSmokeVolume(image, class string) string {
	if class != "" {
		class = fmt.Sprintf("  storageClassName: %q\n", class)
	}
	return fmt.Sprintf(`apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: %[1]s}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
%[2]s---
`, CloudSmokeNamespace, class) + cloudSmokePod("claimer", image, `      volumeMounts: [{name: data, mountPath: /data}]
  volumes:
    - {name: data, persistentVolumeClaim: {claimName: data}}
`)
}
