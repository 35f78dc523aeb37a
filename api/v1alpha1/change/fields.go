package change

import (
	"maps"

	"github.com/naupegos/naupegos/api/strict"
)

// backOrAnew is the hint for a field that can't change.
const backOrAnew = "set it back; what you want needs another cluster"

// takenNext explains a change of the rules for choosing machines from the stock.
const takenNext = "applies only to machines that a cluster takes later; machines in use stay"

// installedNext explains a change of the choice of the system disk.
const installedNext = "it applies to machines that are installed from now on; machines in use stay on their disk, and the plan names them: naupegos node replace"

// otherIssuer is the hint for an issuer that can't change; sameAuthorities explains a change of the issuer's address.
const (
	otherIssuer     = "set it back; with another issuer the authorities are others, and the cluster another one: naupegos destroy it, or reset it, first"
	sameAuthorities = "the authorities there must be the same ones"
)

// proxyRestarts explains a change of the proxy.
const proxyRestarts = "containerd and kubelet restart; containers that run go on"

// Fields returns the rules of the document's fields, by the field's path with "[]" for list items. A field that contains others has a rule if it can appear and
// disappear as a whole: a pointer, or a list item. The document's package adds the rules of fields that it finds by their types, and its test ensures completeness.
func Fields() Rules {
	r := maps.Clone(fields)
	r.shapes("spec.provider.openstack.machine", "spec.endpoint.gateways.machine", "spec.controlPlane.machine", "spec.workers[].machine")
	r.settings("spec.machines", "spec.controlPlane.machines", "spec.endpoint.gateways.machines", "spec.workers[].machines")
	r.registries()
	r.balancerClasses()
	return r
}

// fields are the rules of fields that stand in one place.
var fields = Rules{
	"apiVersion":    {Class: Free, Say: "it is the form of the document only"},
	"kind":          {Class: Refused, Say: backOrAnew},
	"metadata.name": {Class: Refused, Say: "another name is another cluster"},

	"spec.kubernetes.version":          {Class: Rolling, Say: "what naupegos upgrade --to does; an older minor is refused, but for the one that an upgrade still can go back to"},
	"spec.kubernetes.podCIDR":          {Class: Refused, Say: backOrAnew},
	"spec.kubernetes.serviceCIDR":      {Class: Refused, Say: backOrAnew},
	"spec.kubernetes.nodeCIDRMaskSize": {Class: Refused, Say: backOrAnew},
	"spec.kubernetes.dnsDomain":        {Class: Refused, Say: backOrAnew},
	"spec.kubernetes.cni":              {Class: Refused, Say: backOrAnew},

	"spec.provider.local":              {Class: Refused, Say: backOrAnew},
	"spec.provider.local.network.cidr": {Class: Refused, Say: backOrAnew, Live: true},
	"spec.provider.local.image.suite":  {Class: Refused, Say: backOrAnew},

	"spec.provider.hosts":                                {Class: Refused, Say: backOrAnew},
	"spec.provider.hosts.sshKeyFile":                     {Class: Free},
	"spec.provider.hosts.credential":                     {Class: Free},
	"spec.provider.hosts.sshAgent":                       {Class: Free},
	"spec.provider.hosts.sshConfig":                      {Class: Free},
	"spec.provider.hosts.sudoPassword":                   {Class: Free},
	"spec.provider.hosts.sudoPassword.file":              {Class: Free},
	"spec.provider.hosts.sudoPassword.env":               {Class: Free},
	"spec.provider.hosts.sudoPassword.prompt":            {Class: Free},
	"spec.provider.hosts.bastions":                       {Class: Free},
	"spec.provider.hosts.bastions[].address":             {Class: Free},
	"spec.provider.hosts.bastions[].user":                {Class: Free},
	"spec.provider.hosts.bastions[].port":                {Class: Free},
	"spec.provider.hosts.bastions[].sshKeyFile":          {Class: Free},
	"spec.provider.hosts.bastions[].hostKey":             {Class: Free, Say: "the jump host must show that key"},
	"spec.provider.hosts.user":                           {Class: Free},
	"spec.provider.hosts.port":                           {Class: Free},
	"spec.provider.hosts.machines[]":                     {Class: Free, Say: "a machine that leaves the list is drained and leaves the cluster"},
	"spec.provider.hosts.machines[].address":             {Class: Refused, Say: "set it back; a machine with another address is another machine: add it under another name, then remove this one"},
	"spec.provider.hosts.machines[].sshAddress":          {Class: Free},
	"spec.provider.hosts.machines[].user":                {Class: Free},
	"spec.provider.hosts.machines[].port":                {Class: Free},
	"spec.provider.hosts.machines[].sshKeyFile":          {Class: Free},
	"spec.provider.hosts.machines[].sudoPassword":        {Class: Free},
	"spec.provider.hosts.machines[].sudoPassword.file":   {Class: Free},
	"spec.provider.hosts.machines[].sudoPassword.env":    {Class: Free},
	"spec.provider.hosts.machines[].sudoPassword.prompt": {Class: Free},
	"spec.provider.hosts.machines[].name":                {Class: Free, Say: "a machine with another name is another machine"},
	"spec.provider.hosts.machines[].role":                {Class: Refused, Say: "set it back; to give a machine another role, remove it, apply, and add it again under another name"},
	"spec.provider.hosts.machines[].pool":                {Class: Refused, Say: "set it back; to move a machine to another pool, remove it, apply, and add it again under another name"},
	"spec.provider.hosts.machines[].hostKey":             {Class: Free, Say: "the machine must show that key"},
	"spec.provider.hosts.trustOnFirstUse":                {Class: Free, Say: "it concerns machines that are met for the first time"},

	"spec.provider.openstack":                    {Class: Refused, Say: backOrAnew},
	"spec.provider.openstack.cloud":              {Class: Free, Say: "it must lead to the same project", Live: true},
	"spec.provider.openstack.credential":         {Class: Free, Say: "it must lead to the same project", Live: true},
	"spec.provider.openstack.region":             {Class: Refused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.externalNetwork":    {Class: Refused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.floatingSubnet":     {Class: Free, Say: "new floating IPs come from it"},
	"spec.provider.openstack.tags":               {Class: Free},
	"spec.provider.openstack.metadata":           {Class: Free},
	"spec.provider.openstack.network.cidr":       {Class: Refused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.network.dnsServers": {Class: Free, Say: "machines take them over when they renew their lease"},
	"spec.provider.openstack.network.existing":   {Class: Refused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.network.subnet":     {Class: Refused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.network.router":     {Class: Refused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.dns":                {Class: Free, Say: "the record of the API's name is created or removed"},
	"spec.provider.openstack.dns.zone":           {Class: Free, Say: "the record moves to the other zone"},
	"spec.provider.openstack.dns.ttl":            {Class: Free},
	"spec.provider.openstack.trustOnFirstUse":    {Class: Free, Say: "it concerns machines that are met for the first time"},

	"spec.provider.metal":                        {Class: Refused, Say: backOrAnew},
	"spec.provider.metal.spread":                 {Class: Free, Say: takenNext},
	"spec.provider.metal.system":                 {Class: Free, Say: "machines that are installed from now on have it; naupegos update switches the others to it"},
	"spec.provider.metal.installTimeout":         {Class: Free},
	"spec.provider.metal.pools[]":                {Class: Free, Say: takenNext},
	"spec.provider.metal.pools[].name":           {Class: Free},
	"spec.provider.metal.pools[].labels":         {Class: Free, Say: takenNext},
	"spec.provider.metal.pools[].facts":          {Class: Free, Say: takenNext},
	"spec.provider.metal.pools[].minCPUs":        {Class: Free, Say: takenNext},
	"spec.provider.metal.pools[].minMemoryGiB":   {Class: Free, Say: takenNext},
	"spec.provider.metal.pools[].machines":       {Class: Free, Say: takenNext},
	"spec.provider.metal.pools[].disk.serial":    {Class: Free, Say: installedNext},
	"spec.provider.metal.pools[].disk.minGiB":    {Class: Free, Say: installedNext},
	"spec.provider.metal.pools[].disk.data":      {Class: Free, Say: "installations leave them alone from then on"},
	"spec.provider.metal.pools[].disk.overwrite": {Class: Free, Say: "it is consent to what installations do from then on"},
	"spec.provider.metal.pools[].strategy":       {Class: Free},

	"spec.endpoint.kind":                           {Class: Refused, Say: backOrAnew},
	"spec.endpoint.octavia":                        {Class: Free},
	"spec.endpoint.octavia.provider":               {Class: Refused, Say: backOrAnew, Live: true},
	"spec.endpoint.octavia.allowedCIDRs":           {Class: Free},
	"spec.endpoint.octavia.monitor":                {Class: Free},
	"spec.endpoint.octavia.flavor":                 {Class: Refused, Say: backOrAnew, Live: true},
	"spec.endpoint.octavia.zone":                   {Class: Refused, Say: backOrAnew, Live: true},
	"spec.endpoint.octavia.internal":               {Class: Consent, Say: "give-up-addresses, where a floating IP is given back"},
	"spec.endpoint.octavia.ingress":                {Class: Free},
	"spec.endpoint.octavia.ingress.httpNodePort":   {Class: Free},
	"spec.endpoint.octavia.ingress.httpsNodePort":  {Class: Free},
	"spec.endpoint.gateways":                       {Class: Free},
	"spec.endpoint.gateways.replicas":              {Class: Free},
	"spec.endpoint.gateways.ingress":               {Class: Rolling},
	"spec.endpoint.gateways.ingress.httpNodePort":  {Class: Rolling},
	"spec.endpoint.gateways.ingress.httpsNodePort": {Class: Rolling},
	"spec.endpoint.vip":                            {Class: Refused, Say: backOrAnew},
	"spec.endpoint.dnsName":                        {Class: Rolling, Say: "the API servers get certificates with the new name"},
	"spec.endpoint.floatingIP":                     {Class: Refused, Say: backOrAnew},
	"spec.endpoint.address":                        {Class: Refused, Say: backOrAnew},
	"spec.endpoint.port":                           {Class: Refused, Say: backOrAnew},

	"spec.controlPlane.replicas":    {Class: Free, Say: "etcd members join and leave one by one"},
	"spec.controlPlane.schedulable": {Class: Free, Say: "pods that run stay where they are"},
	"spec.controlPlane.labels":      {Class: Free},
	"spec.etcd.mode":                {Class: Refused, Say: backOrAnew},

	"spec.proxy":                      {Class: Rolling, Say: proxyRestarts},
	"spec.proxy.http":                 {Class: Rolling, Say: proxyRestarts},
	"spec.proxy.https":                {Class: Rolling, Say: proxyRestarts},
	"spec.proxy.noProxy":              {Class: Rolling, Say: proxyRestarts},
	"spec.proxy.auth":                 {Class: Rolling, Say: proxyRestarts},
	"spec.proxy.auth.credentialsFile": {Class: Free},
	"spec.proxy.auth.credential":      {Class: Free},
	"spec.registries":                 {Class: Free, Say: "containerd reads it at the next pull"},
	"spec.registry":                   {Class: Free, Say: "containerd asks it at the next pull; images that run stay"},
	"spec.registry.replicas":          {Class: Free, Say: "containerd reads it at the next pull"},
	"spec.registry.sets":              {Class: Free, Say: "the images of removed sets are no longer served; running ones stay"},

	"spec.workers[]":             {Class: Free, Say: "the machines of a pool that leaves the list are drained and removed"},
	"spec.workers[].name":        {Class: Free, Say: "a pool with another name is another pool"},
	"spec.workers[].replicas":    {Class: Free, Say: "removed machines are drained first; a pool that scales only starts with this number"},
	"spec.workers[].minReplicas": {Class: Free, Say: "a pool that is smaller grows at once"},
	"spec.workers[].maxReplicas": {Class: Free, Say: "a pool that is larger shrinks at once; without it the pool has as many machines as replicas says"},
	"spec.workers[].version":     {Class: Rolling, Say: "an older minor than the pool's machines run is refused"},
	"spec.workers[].labels":      {Class: Free},
	"spec.workers[].taints":      {Class: Free, Say: "NoExecute evicts pods that do not tolerate it"},

	"spec.security.auditLog.enabled":     {Class: Rolling},
	"spec.security.auditLog.maxAgeDays":  {Class: Rolling},
	"spec.security.auditLog.maxBackups":  {Class: Rolling},
	"spec.security.auditLog.maxSizeMiB":  {Class: Rolling},
	"spec.security.auditLog.policy":      {Class: Rolling},
	"spec.security.encryptionAtRest":     {Class: Rolling, Say: "in stages: API servers learn to read, then write, and all Secrets are rewritten; control-plane machines restart twice"},
	"spec.security.cisDefaults":          {Class: Rolling},
	"spec.security.packetFilter":         {Class: Free},
	"spec.security.packetFilter.enabled": {Class: Free},
	"spec.security.packetFilter.admit":   {Class: Free},

	"spec.addons[]":                                           {Class: Free, Say: "an addon that leaves the list is removed from the cluster; local-path needs consent while volumes of it exist, prometheus if it has volumes, metallb, snapshot-controller, cert-manager and traefik while objects of their definitions do"},
	"spec.addons[].traefik.expose":                            {Class: Free, Say: "clients have to use another address or port; a change to or from HostPort replaces Traefik's pods"},
	"spec.addons[].traefik.gatewayAPI":                        {Class: Free, Say: "set to false, the definitions go; it needs consent while other objects of them exist"},
	"spec.addons[].traefik.customResources":                   {Class: Free, Say: "set to false, the definitions go; it needs consent while objects of them exist"},
	"spec.addons[].nodeLocalDNS.address":                      {Class: Free, Say: "pods that name the former address must name the new one"},
	"spec.addons[].opentelemetryCollector.exporters[].name":   {Class: Free, Say: "what the former exporter has not sent yet is lost"},
	"spec.addons[].opentelemetryCollector.exporters[].path":   {Class: Free, Say: "files in the former directory stay"},
	"spec.addons[].opentelemetryCollector.exporters[].bucket": {Class: Free, Say: "objects in the former bucket stay"},
	"spec.addons[].metallb.pools[].addresses":                 {Class: Free, Say: "Services whose address leaves the pools get another one"},
	"spec.addons[].certManager.clusterResourceNamespace":      {Class: Free, Say: "Secrets of ClusterIssuers stay in the former namespace: copy them"},
	"spec.addons[].externalDNS.rfc2136.server":                {Class: Free, Say: "records at the former server stay"},
	"spec.addons[].externalDNS.rfc2136.zones":                 {Class: Free, Say: "records in the zones that leave stay"},
	"spec.addons[].externalDNS.designate.zones":               {Class: Free, Say: "records in the zones that leave stay"},
	"spec.addons[].externalDNS.domains":                       {Class: Free, Say: "records of the domains that leave stay"},
	"spec.addons[].externalDNS.ownerID":                       {Class: Free, Say: "records of the former owner stay, and nothing changes them any more"},
	"spec.addons[].prometheus.replicas":                       {Class: Free, Say: "the metrics of the second pod are lost with its volume"},
	"spec.addons[].prometheus.storage":                        {Class: Free, Say: "metrics that were collected do not move; the plan names volumes that are lost"},
	"spec.addons[].prometheus.storage.size":                   {Class: Free, Say: "volumes can only grow, and only if their StorageClass allows it"},
	"spec.addons[].prometheus.storage.storageClass":           {Class: Free, Say: "the API refuses it for volumes that exist: take storage away first, which loses the metrics"},
	"spec.addons[].localPath.path":                            {Class: Free, Say: "existing volumes stay where they are"},
	"spec.addons[].localPath.storageClass":                    {Class: Free, Say: "the class of the former name is removed; its volumes stay"},
	"spec.addons[].localPath.reclaimPolicy":                   {Class: Free, Say: "existing volumes keep theirs"},
	"spec.addons[].nodeProblemDetector.monitors":              {Class: Free, Say: "conditions of monitors that leave are removed from the nodes"},

	"spec.manifests[]":           {Class: Free, Say: "a set that leaves the list is removed from the cluster, with consent if volumes or definitions in use go with it"},
	"spec.manifests[].name":      {Class: Free},
	"spec.manifests[].file":      {Class: Free},
	"spec.manifests[].dir":       {Class: Free},
	"spec.manifests[].kustomize": {Class: Free},
	"spec.manifests[].inline":    {Class: Free},
	"spec.manifests[].namespace": {Class: Free, Say: "the objects of the former namespace are removed"},
	"spec.manifests[].mode":      {Class: Free},
	"spec.manifests[].force":     {Class: Free},
	"spec.manifests[].timeout":   {Class: Free},
	"spec.charts[]":              {Class: Free, Say: "a chart that leaves the list is removed from the cluster, with consent if volumes or definitions in use go with it"},
	"spec.charts[].name":         {Class: Free},
	"spec.charts[].chart":        {Class: Free},
	"spec.charts[].version":      {Class: Free},
	"spec.charts[].namespace":    {Class: Free, Say: "the objects of the former namespace are removed"},
	"spec.charts[].values":       {Class: Free},
	"spec.charts[].valuesFiles":  {Class: Free},
	"spec.charts[].mode":         {Class: Free},
	"spec.charts[].force":        {Class: Free},
	"spec.charts[].timeout":      {Class: Free},
	"sources":                    {Class: Free},

	"spec.pki.issuer":                            {Class: Refused, Say: otherIssuer},
	"spec.pki.issuer.vault":                      {Class: Refused, Say: otherIssuer},
	"spec.pki.issuer.vault.address":              {Class: Free, Say: sameAuthorities},
	"spec.pki.issuer.vault.mount":                {Class: Free, Say: sameAuthorities},
	"spec.pki.issuer.vault.namespace":            {Class: Free, Say: sameAuthorities},
	"spec.pki.issuer.vault.ca":                   {Class: Free},
	"spec.pki.issuer.vault.auth.method":          {Class: Free},
	"spec.pki.issuer.vault.auth.mount":           {Class: Free},
	"spec.pki.issuer.vault.auth.role":            {Class: Free},
	"spec.pki.issuer.vault.auth.credentialsFile": {Class: Free},
	"spec.pki.issuer.vault.auth.credential":      {Class: Free},

	"spec.access.sshKeys":                     {Class: Free},
	"spec.access.sshCIDRs":                    {Class: Free},
	"spec.access.apiCIDRs":                    {Class: Free},
	"spec.access.nodePortCIDRs":               {Class: Free},
	"spec.access.wireguard":                   {Class: Free, Say: "the gateways' WireGuard alone starts or stops"},
	"spec.access.wireguard.cidr":              {Class: Refused, Say: "set it back; to move the network, take wireguard out, apply, and put it in again: peers need new client configurations then"},
	"spec.access.wireguard.port":              {Class: Rolling, Say: "peers need the new port in their client configurations"},
	"spec.access.wireguard.peers[]":           {Class: Free},
	"spec.access.wireguard.peers[].name":      {Class: Free, Say: "a peer with another name is another peer"},
	"spec.access.wireguard.peers[].publicKey": {Class: Free},

	"spec.backup":                          {Class: Free},
	"spec.backup.to":                       {Class: Free, Say: "what is in the former place stays there"},
	"spec.backup.to.directory":             {Class: Free, Say: "what is in the former place stays there"},
	"spec.backup.to.s3":                    {Class: Free, Say: "what is in the former place stays there"},
	"spec.backup.to.s3.endpoint":           {Class: Free, Say: "what is in the former place stays there"},
	"spec.backup.to.s3.bucket":             {Class: Free, Say: "what is in the former place stays there"},
	"spec.backup.to.s3.prefix":             {Class: Free, Say: "what is in the former place stays there"},
	"spec.backup.to.s3.region":             {Class: Free},
	"spec.backup.to.s3.ca":                 {Class: Free},
	"spec.backup.to.s3.credentialsFile":    {Class: Free},
	"spec.backup.to.s3.credential":         {Class: Free},
	"spec.backup.to.swift":                 {Class: Free, Say: "what is in the former place stays there"},
	"spec.backup.to.swift.authURL":         {Class: Free, Say: "what is in the former place stays there"},
	"spec.backup.to.swift.container":       {Class: Free, Say: "what is in the former place stays there"},
	"spec.backup.to.swift.prefix":          {Class: Free, Say: "what is in the former place stays there"},
	"spec.backup.to.swift.region":          {Class: Free, Say: "what is in the former place stays there"},
	"spec.backup.to.swift.ca":              {Class: Free},
	"spec.backup.to.swift.credentialsFile": {Class: Free},
	"spec.backup.to.swift.credential":      {Class: Free},
	"spec.backup.recipients":               {Class: Free, Say: "those of backups that are made from now on"},
	"spec.backup.schedule":                 {Class: Free},
	"spec.backup.keep":                     {Class: Free},
	"spec.backup.keep.last":                {Class: Free},
	"spec.backup.keep.days":                {Class: Free},
	"spec.backup.keep.weeks":               {Class: Free},

	"spec.updates.maxSurge":            {Class: Free},
	"spec.updates.maxUnavailable":      {Class: Free},
	"spec.updates.os.window":           {Class: Free},
	"spec.updates.os.window.days":      {Class: Free},
	"spec.updates.os.window.from":      {Class: Free},
	"spec.updates.os.window.to":        {Class: Free},
	"spec.updates.os.hold":             {Class: Free},
	"spec.repair.after":                {Class: Free},
	"spec.repair.patience":             {Class: Free},
	"spec.repair.maxUnhealthy":         {Class: Free},
	"spec.repair.replace":              {Class: Free, Say: "it is consent to what naupegos repair does from then on"},
	"spec.unattended.autoscale":        {Class: Free, Say: "it is consent to what the autoscaler asks for from then on"},
	"spec.unattended.autoscalePort":    {Class: Free, Say: "autoscalers need the Secret again, with the other port"},
	"spec.unattended.drift":            {Class: Free},
	"spec.unattended.rehearse":         {Class: Free},
	"spec.unattended.renew":            {Class: Free, Say: "it is consent to what naupegos renew does from then on"},
	"spec.unattended.repair":           {Class: Free, Say: "it is consent to what naupegos repair does from then on"},
	"spec.timeouts.machineBoot":        {Class: Free},
	"spec.timeouts.nodeReady":          {Class: Free},
	"spec.timeouts.drain":              {Class: Free},
	"spec.timeouts.connect":            {Class: Free},
	"spec.timeouts.step":               {Class: Free},
	"spec.protect":                     {Class: Free, Say: "destroy, reset and the removal of control-plane machines are refused as long as it is true"},
	"spec.smokeTest":                   {Class: Free},
	"spec.updates.soak":                {Class: Free, Say: "an upgrade that has stayed for longer is finished by the apply"},
	"spec.updates.checks[]":            {Class: Free},
	"spec.updates.checks[].name":       {Class: Free},
	"spec.updates.checks[].apiVersion": {Class: Free},
	"spec.updates.checks[].kind":       {Class: Free},
	"spec.updates.checks[].namespace":  {Class: Free},
	"spec.updates.checks[].expression": {Class: Free},
}

// registries adds the rules for the fields of a registry: containerd reads all of them at the next pull.
func (r Rules) registries() {
	next := r["spec.registries"]
	for _, key := range []string{"host", "mirrors", "mirrors[].url", "mirrors[].capabilities", "mirrors[].overridePath"} {
		r["spec.registries[]."+key] = next
	}
	for _, p := range []string{"spec.registries[]", "spec.registries[].mirrors[]"} {
		for _, key := range []string{"ca", "auth", "auth.credentialsFile", "auth.credential", "insecure"} {
			r[strict.Join(p, key)] = next
		}
	}
}

func (r Rules) balancerClasses() {
	const path = "spec.provider.openstack.loadBalancerClasses[]"
	next := Rule{Class: Free, Say: "new load balancers have it"}
	r[path] = next
	for _, key := range []string{"name", "floatingNetwork", "floatingSubnet", "floatingSubnetTags", "network", "subnet"} {
		r[strict.Join(path, key)] = next
	}
}

// shapes adds the rules for a MachineShape at each of these paths.
func (r Rules) shapes(places ...string) {
	another := Rule{Class: Consent, Say: "replace-machines, for machines that are of another kind now"}
	next := Rule{Class: Free, Say: "machines that are made from now on have it"}
	for _, p := range places {
		for _, key := range []string{"flavor", "image", "rootVolumeGiB", "rootVolumeType"} {
			r[strict.Join(p, key)] = another
		}
		for _, key := range []string{"zones", "antiAffinity", "userData", "configDrive", "networks", "networks[].network", "networks[].subnet"} {
			r[strict.Join(p, key)] = next
		}
		for _, key := range []string{"securityGroups", "portSecurity"} {
			r[strict.Join(p, key)] = Rule{Class: Free, Say: "the ports of the machines change at once"}
		}
		r[strict.Join(p, "volumes[]")] = Rule{Class: Consent, Say: "volumes, if a volume is removed with its data, alone or with its machine; a new one is attached at once"}
		r[strict.Join(p, "volumes[].name")] = Rule{Class: Free}
		r[strict.Join(p, "volumes[].sizeGiB")] = Rule{Class: Free, Say: "the volume grows; it can't shrink"}
		r[strict.Join(p, "volumes[].type")] = Rule{Class: Free, Say: "volumes that are made from now on have it"}
		r[strict.Join(p, "floatingIP")] = Rule{Class: Consent, Say: "give-up-addresses, where floating IPs are given back"}
	}
}
