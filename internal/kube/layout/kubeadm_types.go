package layout

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types below are the part of kubeadm.k8s.io/v1beta4 that this package writes. kubeadm's own types are in a module that can't be imported;
// `kubeadm config validate` in the integration tests verifies that these agree with them.

type initConfiguration struct {
	metav1.TypeMeta  `json:",inline"`
	BootstrapTokens  []bootstrapToken `json:"bootstrapTokens,omitempty"`
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
	LocalAPIEndpoint apiEndpoint      `json:"localAPIEndpoint"`
	Patches          patches          `json:"patches"`
}

type patches struct {
	Directory string `json:"directory"`
}

type bootstrapToken struct {
	Token       string          `json:"token"`
	Description string          `json:"description,omitempty"`
	TTL         metav1.Duration `json:"ttl"`
	Usages      []string        `json:"usages"`
	Groups      []string        `json:"groups"`
}

type nodeRegistration struct {
	Name                  string         `json:"name"`
	CRISocket             string         `json:"criSocket"`
	Taints                []corev1.Taint `json:"taints"`
	KubeletExtraArgs      []arg          `json:"kubeletExtraArgs,omitempty"`
	IgnorePreflightErrors []string       `json:"ignorePreflightErrors,omitempty"`
	ImagePullPolicy       string         `json:"imagePullPolicy,omitempty"`
}

type apiEndpoint struct {
	AdvertiseAddress string `json:"advertiseAddress"`
	BindPort         int32  `json:"bindPort"`
}

type clusterConfiguration struct {
	metav1.TypeMeta      `json:",inline"`
	ClusterName          string        `json:"clusterName"`
	KubernetesVersion    string        `json:"kubernetesVersion"`
	ControlPlaneEndpoint string        `json:"controlPlaneEndpoint"`
	CertificatesDir      string        `json:"certificatesDir"`
	ImageRepository      string        `json:"imageRepository"`
	EncryptionAlgorithm  string        `json:"encryptionAlgorithm"`
	Networking           networking    `json:"networking"`
	DNS                  imageMeta     `json:"dns"`
	Etcd                 etcdConfig    `json:"etcd"`
	APIServer            apiServerArgs `json:"apiServer"`
	ControllerManager    component     `json:"controllerManager"`
	Scheduler            component     `json:"scheduler"`
}

type networking struct {
	ServiceSubnet string `json:"serviceSubnet"`
	PodSubnet     string `json:"podSubnet"`
	DNSDomain     string `json:"dnsDomain"`
}

type imageMeta struct {
	ImageTag string `json:"imageTag,omitempty"`
}

type etcdConfig struct {
	Local    *localEtcd    `json:"local,omitempty"`
	External *externalEtcd `json:"external,omitempty"`
}

type localEtcd struct {
	imageMeta `json:",inline"`
	DataDir   string `json:"dataDir"`
	ExtraArgs []arg  `json:"extraArgs,omitempty"`
}

type externalEtcd struct {
	Endpoints []string `json:"endpoints"`
	CAFile    string   `json:"caFile"`
	CertFile  string   `json:"certFile"`
	KeyFile   string   `json:"keyFile"`
}

type component struct {
	ExtraArgs    []arg       `json:"extraArgs,omitempty"`
	ExtraVolumes []hostMount `json:"extraVolumes,omitempty"`
}

type apiServerArgs struct {
	component `json:",inline"`
	CertSANs  []string `json:"certSANs,omitempty"`
}

type arg struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type hostMount struct {
	Name      string              `json:"name"`
	HostPath  string              `json:"hostPath"`
	MountPath string              `json:"mountPath"`
	ReadOnly  bool                `json:"readOnly,omitempty"`
	PathType  corev1.HostPathType `json:"pathType,omitempty"`
}
