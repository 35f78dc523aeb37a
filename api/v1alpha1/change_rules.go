package v1alpha1

import "github.com/naupegos/naupegos/api/strict"

// ChangeClass says what a change of a field means for a running cluster.
type ChangeClass string

// The classes.
const (
	ChangeFree    ChangeClass = "free"    // nothing that runs is disturbed
	ChangeRolling ChangeClass = "rolling" // services restart, one machine after another
	ChangeConsent ChangeClass = "consent" // something is given up for good: apply needs --consent
	ChangeVerb    ChangeClass = "verb"    // apply refuses it; another command does it
	ChangeRefused ChangeClass = "refused" // it can't be changed during the cluster's life
)

// ChangeRule says what a change of one field means.
type ChangeRule struct {
	Class ChangeClass
	Say   string // free and rolling: what happens, may be empty; consent: its name and purpose; otherwise what to do instead
	// Live: the provider compares the field with what exists, because the same thing can be written in several ways (a name, an ID).
	Live bool
}

// backOrAnew is the hint for a field that can't change.
const backOrAnew = "set it back; what you want needs another cluster"

// takenNext explains a change of the rules for choosing machines from the stock.
const takenNext = "it applies to machines that a cluster takes later; machines in use stay"

// installedNext explains a change of the choice of the system disk.
const installedNext = "it applies to machines that are installed from now on; machines in use stay on their disk, and the plan names them: naupegos node replace"

// otherIssuer is the hint for an issuer that can't change; sameAuthorities explains a change of the issuer's address.
const (
	otherIssuer     = "set it back; with another issuer the authorities are others, and the cluster another one: naupegos destroy it, or reset it, first"
	sameAuthorities = "the authorities there must be the same ones"
)

// proxyRestarts explains a change of the proxy.
const proxyRestarts = "containerd and kubelet restart; containers that run go on"

// changeRules has a rule for every field of the document, by its path with "[]" for list items; a test ensures completeness. A field that contains
// others has a rule if it can appear and disappear as a whole: a pointer, or a list item.
var changeRules = rules{
	"apiVersion":    {Class: ChangeFree, Say: "it is the form of the document only"},
	"kind":          {Class: ChangeRefused, Say: backOrAnew},
	"metadata.name": {Class: ChangeRefused, Say: "another name is another cluster"},

	"spec.kubernetes.version":          {Class: ChangeRolling, Say: "what naupegos upgrade --to does; an older minor is refused, but for the one that an upgrade still can go back to"},
	"spec.kubernetes.podCIDR":          {Class: ChangeRefused, Say: backOrAnew},
	"spec.kubernetes.serviceCIDR":      {Class: ChangeRefused, Say: backOrAnew},
	"spec.kubernetes.nodeCIDRMaskSize": {Class: ChangeRefused, Say: backOrAnew},
	"spec.kubernetes.dnsDomain":        {Class: ChangeRefused, Say: backOrAnew},
	"spec.kubernetes.cni":              {Class: ChangeRefused, Say: backOrAnew},

	"spec.provider.local":              {Class: ChangeRefused, Say: backOrAnew},
	"spec.provider.local.network.cidr": {Class: ChangeRefused, Say: backOrAnew, Live: true},
	"spec.provider.local.image.suite":  {Class: ChangeRefused, Say: backOrAnew},

	"spec.provider.hosts":                                {Class: ChangeRefused, Say: backOrAnew},
	"spec.provider.hosts.sshKeyFile":                     {Class: ChangeFree},
	"spec.provider.hosts.credential":                     {Class: ChangeFree},
	"spec.provider.hosts.sshAgent":                       {Class: ChangeFree},
	"spec.provider.hosts.sshConfig":                      {Class: ChangeFree},
	"spec.provider.hosts.sudoPassword":                   {Class: ChangeFree},
	"spec.provider.hosts.sudoPassword.file":              {Class: ChangeFree},
	"spec.provider.hosts.sudoPassword.env":               {Class: ChangeFree},
	"spec.provider.hosts.sudoPassword.prompt":            {Class: ChangeFree},
	"spec.provider.hosts.bastions":                       {Class: ChangeFree},
	"spec.provider.hosts.bastions[].address":             {Class: ChangeFree},
	"spec.provider.hosts.bastions[].user":                {Class: ChangeFree},
	"spec.provider.hosts.bastions[].port":                {Class: ChangeFree},
	"spec.provider.hosts.bastions[].sshKeyFile":          {Class: ChangeFree},
	"spec.provider.hosts.bastions[].hostKey":             {Class: ChangeFree, Say: "the jump host must show that key"},
	"spec.provider.hosts.user":                           {Class: ChangeFree},
	"spec.provider.hosts.port":                           {Class: ChangeFree},
	"spec.provider.hosts.machines[]":                     {Class: ChangeFree, Say: "a machine that leaves the list is drained and leaves the cluster"},
	"spec.provider.hosts.machines[].address":             {Class: ChangeRefused, Say: "set it back; a machine with another address is another machine: add it under another name, then remove this one"},
	"spec.provider.hosts.machines[].sshAddress":          {Class: ChangeFree},
	"spec.provider.hosts.machines[].user":                {Class: ChangeFree},
	"spec.provider.hosts.machines[].port":                {Class: ChangeFree},
	"spec.provider.hosts.machines[].sshKeyFile":          {Class: ChangeFree},
	"spec.provider.hosts.machines[].sudoPassword":        {Class: ChangeFree},
	"spec.provider.hosts.machines[].sudoPassword.file":   {Class: ChangeFree},
	"spec.provider.hosts.machines[].sudoPassword.env":    {Class: ChangeFree},
	"spec.provider.hosts.machines[].sudoPassword.prompt": {Class: ChangeFree},
	"spec.provider.hosts.machines[].name":                {Class: ChangeFree, Say: "a machine with another name is another machine"},
	"spec.provider.hosts.machines[].role":                {Class: ChangeRefused, Say: "set it back; to give a machine another role, remove it, apply, and add it again under another name"},
	"spec.provider.hosts.machines[].pool":                {Class: ChangeRefused, Say: "set it back; to move a machine to another pool, remove it, apply, and add it again under another name"},
	"spec.provider.hosts.machines[].hostKey":             {Class: ChangeFree, Say: "the machine must show that key"},
	"spec.provider.hosts.trustOnFirstUse":                {Class: ChangeFree, Say: "it concerns machines that are met for the first time"},

	"spec.provider.openstack":                    {Class: ChangeRefused, Say: backOrAnew},
	"spec.provider.openstack.cloud":              {Class: ChangeFree, Say: "it must lead to the same project", Live: true},
	"spec.provider.openstack.credential":         {Class: ChangeFree, Say: "it must lead to the same project", Live: true},
	"spec.provider.openstack.region":             {Class: ChangeRefused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.externalNetwork":    {Class: ChangeRefused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.network.cidr":       {Class: ChangeRefused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.network.dnsServers": {Class: ChangeFree, Say: "machines take them over when they renew their lease"},
	"spec.provider.openstack.network.existing":   {Class: ChangeRefused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.network.subnet":     {Class: ChangeRefused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.network.router":     {Class: ChangeRefused, Say: backOrAnew, Live: true},
	"spec.provider.openstack.trustOnFirstUse":    {Class: ChangeFree, Say: "it concerns machines that are met for the first time"},

	"spec.provider.metal":                        {Class: ChangeRefused, Say: backOrAnew},
	"spec.provider.metal.spread":                 {Class: ChangeFree, Say: takenNext},
	"spec.provider.metal.system":                 {Class: ChangeFree, Say: "machines that are installed from now on have it; naupegos update switches the others to it"},
	"spec.provider.metal.installTimeout":         {Class: ChangeFree},
	"spec.provider.metal.pools[]":                {Class: ChangeFree, Say: takenNext},
	"spec.provider.metal.pools[].name":           {Class: ChangeFree},
	"spec.provider.metal.pools[].labels":         {Class: ChangeFree, Say: takenNext},
	"spec.provider.metal.pools[].facts":          {Class: ChangeFree, Say: takenNext},
	"spec.provider.metal.pools[].minCPUs":        {Class: ChangeFree, Say: takenNext},
	"spec.provider.metal.pools[].minMemoryGiB":   {Class: ChangeFree, Say: takenNext},
	"spec.provider.metal.pools[].machines":       {Class: ChangeFree, Say: takenNext},
	"spec.provider.metal.pools[].disk.serial":    {Class: ChangeFree, Say: installedNext},
	"spec.provider.metal.pools[].disk.minGiB":    {Class: ChangeFree, Say: installedNext},
	"spec.provider.metal.pools[].disk.data":      {Class: ChangeFree, Say: "installations leave them alone from then on"},
	"spec.provider.metal.pools[].disk.overwrite": {Class: ChangeFree, Say: "it is consent to what installations do from then on"},
	"spec.provider.metal.pools[].strategy":       {Class: ChangeFree},

	"spec.endpoint.kind":                           {Class: ChangeRefused, Say: backOrAnew},
	"spec.endpoint.octavia":                        {Class: ChangeFree},
	"spec.endpoint.octavia.provider":               {Class: ChangeRefused, Say: backOrAnew, Live: true},
	"spec.endpoint.octavia.allowedCIDRs":           {Class: ChangeFree},
	"spec.endpoint.octavia.monitor":                {Class: ChangeFree},
	"spec.endpoint.octavia.flavor":                 {Class: ChangeRefused, Say: backOrAnew, Live: true},
	"spec.endpoint.octavia.zone":                   {Class: ChangeRefused, Say: backOrAnew, Live: true},
	"spec.endpoint.octavia.internal":               {Class: ChangeConsent, Say: "give-up-addresses, where a floating IP is given back"},
	"spec.endpoint.octavia.ingress":                {Class: ChangeFree},
	"spec.endpoint.octavia.ingress.httpNodePort":   {Class: ChangeFree},
	"spec.endpoint.octavia.ingress.httpsNodePort":  {Class: ChangeFree},
	"spec.endpoint.gateways":                       {Class: ChangeFree},
	"spec.endpoint.gateways.replicas":              {Class: ChangeFree},
	"spec.endpoint.gateways.ingress":               {Class: ChangeRolling},
	"spec.endpoint.gateways.ingress.httpNodePort":  {Class: ChangeRolling},
	"spec.endpoint.gateways.ingress.httpsNodePort": {Class: ChangeRolling},
	"spec.endpoint.vip":                            {Class: ChangeRefused, Say: backOrAnew},
	"spec.endpoint.dnsName":                        {Class: ChangeRolling, Say: "the API servers get certificates with the new name"},
	"spec.endpoint.floatingIP":                     {Class: ChangeRefused, Say: backOrAnew},
	"spec.endpoint.address":                        {Class: ChangeRefused, Say: backOrAnew},
	"spec.endpoint.port":                           {Class: ChangeRefused, Say: backOrAnew},

	"spec.controlPlane.replicas":    {Class: ChangeFree, Say: "etcd members join and leave one by one"},
	"spec.controlPlane.schedulable": {Class: ChangeFree, Say: "pods that run stay where they are"},
	"spec.controlPlane.labels":      {Class: ChangeFree},
	"spec.etcd.mode":                {Class: ChangeRefused, Say: backOrAnew},

	"spec.proxy":                      {Class: ChangeRolling, Say: proxyRestarts},
	"spec.proxy.http":                 {Class: ChangeRolling, Say: proxyRestarts},
	"spec.proxy.https":                {Class: ChangeRolling, Say: proxyRestarts},
	"spec.proxy.noProxy":              {Class: ChangeRolling, Say: proxyRestarts},
	"spec.proxy.auth":                 {Class: ChangeRolling, Say: proxyRestarts},
	"spec.proxy.auth.credentialsFile": {Class: ChangeFree},
	"spec.proxy.auth.credential":      {Class: ChangeFree},
	"spec.registries":                 {Class: ChangeFree, Say: "containerd reads it at the next pull"},
	"spec.registry":                   {Class: ChangeFree, Say: "containerd asks it at the next pull; images that run stay"},
	"spec.registry.replicas":          {Class: ChangeFree, Say: "containerd reads it at the next pull"},
	"spec.registry.sets":              {Class: ChangeFree, Say: "the images of removed sets are no longer served; running ones stay"},

	"spec.workers[]":             {Class: ChangeFree, Say: "the machines of a pool that leaves the list are drained and removed"},
	"spec.workers[].name":        {Class: ChangeFree, Say: "a pool with another name is another pool"},
	"spec.workers[].replicas":    {Class: ChangeFree, Say: "machines that go are drained first; of a pool that scales it is only what it begins with"},
	"spec.workers[].minReplicas": {Class: ChangeFree, Say: "a pool that is smaller grows at once"},
	"spec.workers[].maxReplicas": {Class: ChangeFree, Say: "a pool that is larger shrinks at once; without it the pool has as many machines as replicas says"},
	"spec.workers[].version":     {Class: ChangeRolling, Say: "an older minor than the pool's machines run is refused"},
	"spec.workers[].labels":      {Class: ChangeFree},
	"spec.workers[].taints":      {Class: ChangeFree, Say: "NoExecute evicts pods that do not tolerate it"},

	"spec.security.auditLog.enabled":     {Class: ChangeRolling},
	"spec.security.auditLog.maxAgeDays":  {Class: ChangeRolling},
	"spec.security.auditLog.maxBackups":  {Class: ChangeRolling},
	"spec.security.auditLog.maxSizeMiB":  {Class: ChangeRolling},
	"spec.security.auditLog.policy":      {Class: ChangeRolling},
	"spec.security.encryptionAtRest":     {Class: ChangeRolling, Say: "in stages: API servers learn to read, then write, and all Secrets are rewritten; control-plane machines restart twice"},
	"spec.security.cisDefaults":          {Class: ChangeRolling},
	"spec.security.packetFilter":         {Class: ChangeFree},
	"spec.security.packetFilter.enabled": {Class: ChangeFree},
	"spec.security.packetFilter.admit":   {Class: ChangeFree},

	"spec.addons[]":                                          {Class: ChangeFree, Say: "an addon that leaves the list is removed from the cluster; local-path needs consent while volumes of it exist, metallb, snapshot-controller and cert-manager while objects of their definitions do"},
	"spec.addons[].name":                                     {Class: ChangeFree},
	"spec.addons[].metricsServer":                            {Class: ChangeFree},
	"spec.addons[].metricsServer.replicas":                   {Class: ChangeFree},
	"spec.addons[].metricsServer.resolution":                 {Class: ChangeFree},
	"spec.addons[].nodeExporter":                             {Class: ChangeFree},
	"spec.addons[].nodeExporter.port":                        {Class: ChangeFree},
	"spec.addons[].metallb":                                  {Class: ChangeFree},
	"spec.addons[].metallb.pools[]":                          {Class: ChangeFree},
	"spec.addons[].metallb.pools[].name":                     {Class: ChangeFree},
	"spec.addons[].metallb.pools[].addresses":                {Class: ChangeFree, Say: "Services whose address leaves the pools get another one"},
	"spec.addons[].metallb.pools[].advertise":                {Class: ChangeFree},
	"spec.addons[].metallb.pools[].autoAssign":               {Class: ChangeFree},
	"spec.addons[].metallb.peers":                            {Class: ChangeFree},
	"spec.addons[].metallb.peers[].address":                  {Class: ChangeFree},
	"spec.addons[].metallb.peers[].port":                     {Class: ChangeFree},
	"spec.addons[].metallb.peers[].asn":                      {Class: ChangeFree},
	"spec.addons[].metallb.peers[].myASN":                    {Class: ChangeFree},
	"spec.addons[].snapshotController":                       {Class: ChangeFree},
	"spec.addons[].snapshotController.replicas":              {Class: ChangeFree},
	"spec.addons[].certManager":                              {Class: ChangeFree},
	"spec.addons[].certManager.replicas":                     {Class: ChangeFree},
	"spec.addons[].certManager.clusterResourceNamespace":     {Class: ChangeFree, Say: "Secrets of ClusterIssuers stay in the former namespace: copy them"},
	"spec.addons[].certManager.dns01":                        {Class: ChangeFree},
	"spec.addons[].certManager.dns01.recursiveNameservers":   {Class: ChangeFree},
	"spec.addons[].certManager.dns01.only":                   {Class: ChangeFree},
	"spec.addons[].certManager.gatewayAPI":                   {Class: ChangeFree},
	"spec.addons[].certManager.featureGates":                 {Class: ChangeFree},
	"spec.addons[].externalDNS":                              {Class: ChangeFree},
	"spec.addons[].externalDNS.rfc2136":                      {Class: ChangeFree},
	"spec.addons[].externalDNS.rfc2136.server":               {Class: ChangeFree, Say: "records at the former server stay"},
	"spec.addons[].externalDNS.rfc2136.port":                 {Class: ChangeFree},
	"spec.addons[].externalDNS.rfc2136.zones":                {Class: ChangeFree, Say: "records in the zones that leave stay"},
	"spec.addons[].externalDNS.rfc2136.auth":                 {Class: ChangeFree},
	"spec.addons[].externalDNS.rfc2136.auth.credentialsFile": {Class: ChangeFree},
	"spec.addons[].externalDNS.rfc2136.auth.credential":      {Class: ChangeFree},
	"spec.addons[].externalDNS.rfc2136.algorithm":            {Class: ChangeFree},
	"spec.addons[].externalDNS.domains":                      {Class: ChangeFree, Say: "records of the domains that leave stay"},
	"spec.addons[].externalDNS.policy":                       {Class: ChangeFree},
	"spec.addons[].externalDNS.ownerID":                      {Class: ChangeFree, Say: "records of the former owner stay, and nothing changes them any more"},
	"spec.addons[].externalDNS.sources":                      {Class: ChangeFree},
	"spec.addons[].externalDNS.interval":                     {Class: ChangeFree},
	"spec.addons[].localPath":                                {Class: ChangeFree},
	"spec.addons[].localPath.path":                           {Class: ChangeFree, Say: "existing volumes stay where they are"},
	"spec.addons[].localPath.storageClass":                   {Class: ChangeFree, Say: "the class of the former name is removed; its volumes stay"},
	"spec.addons[].localPath.default":                        {Class: ChangeFree},
	"spec.addons[].localPath.reclaimPolicy":                  {Class: ChangeFree, Say: "existing volumes keep theirs"},

	"spec.manifests[]":           {Class: ChangeFree, Say: "a set that leaves the list is removed from the cluster, with consent if volumes or definitions in use go with it"},
	"spec.manifests[].name":      {Class: ChangeFree},
	"spec.manifests[].file":      {Class: ChangeFree},
	"spec.manifests[].dir":       {Class: ChangeFree},
	"spec.manifests[].kustomize": {Class: ChangeFree},
	"spec.manifests[].inline":    {Class: ChangeFree},
	"spec.manifests[].namespace": {Class: ChangeFree, Say: "the objects of the former namespace are removed"},
	"spec.manifests[].mode":      {Class: ChangeFree},
	"spec.manifests[].force":     {Class: ChangeFree},
	"spec.manifests[].timeout":   {Class: ChangeFree},
	"spec.charts[]":              {Class: ChangeFree, Say: "a chart that leaves the list is removed from the cluster, with consent if volumes or definitions in use go with it"},
	"spec.charts[].name":         {Class: ChangeFree},
	"spec.charts[].chart":        {Class: ChangeFree},
	"spec.charts[].version":      {Class: ChangeFree},
	"spec.charts[].namespace":    {Class: ChangeFree, Say: "the objects of the former namespace are removed"},
	"spec.charts[].values":       {Class: ChangeFree},
	"spec.charts[].valuesFiles":  {Class: ChangeFree},
	"spec.charts[].mode":         {Class: ChangeFree},
	"spec.charts[].force":        {Class: ChangeFree},
	"spec.charts[].timeout":      {Class: ChangeFree},
	"sources":                    {Class: ChangeFree},

	"spec.pki.issuer":                            {Class: ChangeRefused, Say: otherIssuer},
	"spec.pki.issuer.vault":                      {Class: ChangeRefused, Say: otherIssuer},
	"spec.pki.issuer.vault.address":              {Class: ChangeFree, Say: sameAuthorities},
	"spec.pki.issuer.vault.mount":                {Class: ChangeFree, Say: sameAuthorities},
	"spec.pki.issuer.vault.namespace":            {Class: ChangeFree, Say: sameAuthorities},
	"spec.pki.issuer.vault.ca":                   {Class: ChangeFree},
	"spec.pki.issuer.vault.auth.method":          {Class: ChangeFree},
	"spec.pki.issuer.vault.auth.mount":           {Class: ChangeFree},
	"spec.pki.issuer.vault.auth.role":            {Class: ChangeFree},
	"spec.pki.issuer.vault.auth.credentialsFile": {Class: ChangeFree},
	"spec.pki.issuer.vault.auth.credential":      {Class: ChangeFree},

	"spec.access.sshKeys":                     {Class: ChangeFree},
	"spec.access.sshCIDRs":                    {Class: ChangeFree},
	"spec.access.apiCIDRs":                    {Class: ChangeFree},
	"spec.access.nodePortCIDRs":               {Class: ChangeFree},
	"spec.access.wireguard":                   {Class: ChangeFree, Say: "the gateways' WireGuard alone starts or stops"},
	"spec.access.wireguard.cidr":              {Class: ChangeRefused, Say: "set it back; to move the network, take wireguard out, apply, and put it in again: peers need new client configurations then"},
	"spec.access.wireguard.port":              {Class: ChangeRolling, Say: "peers need the new port in their client configurations"},
	"spec.access.wireguard.peers[]":           {Class: ChangeFree},
	"spec.access.wireguard.peers[].name":      {Class: ChangeFree, Say: "a peer with another name is another peer"},
	"spec.access.wireguard.peers[].publicKey": {Class: ChangeFree},

	"spec.backup":                          {Class: ChangeFree},
	"spec.backup.to":                       {Class: ChangeFree, Say: "what is in the former place stays there"},
	"spec.backup.to.directory":             {Class: ChangeFree, Say: "what is in the former place stays there"},
	"spec.backup.to.s3":                    {Class: ChangeFree, Say: "what is in the former place stays there"},
	"spec.backup.to.s3.endpoint":           {Class: ChangeFree, Say: "what is in the former place stays there"},
	"spec.backup.to.s3.bucket":             {Class: ChangeFree, Say: "what is in the former place stays there"},
	"spec.backup.to.s3.prefix":             {Class: ChangeFree, Say: "what is in the former place stays there"},
	"spec.backup.to.s3.region":             {Class: ChangeFree},
	"spec.backup.to.s3.ca":                 {Class: ChangeFree},
	"spec.backup.to.s3.credentialsFile":    {Class: ChangeFree},
	"spec.backup.to.s3.credential":         {Class: ChangeFree},
	"spec.backup.to.swift":                 {Class: ChangeFree, Say: "what is in the former place stays there"},
	"spec.backup.to.swift.authURL":         {Class: ChangeFree, Say: "what is in the former place stays there"},
	"spec.backup.to.swift.container":       {Class: ChangeFree, Say: "what is in the former place stays there"},
	"spec.backup.to.swift.prefix":          {Class: ChangeFree, Say: "what is in the former place stays there"},
	"spec.backup.to.swift.region":          {Class: ChangeFree, Say: "what is in the former place stays there"},
	"spec.backup.to.swift.ca":              {Class: ChangeFree},
	"spec.backup.to.swift.credentialsFile": {Class: ChangeFree},
	"spec.backup.to.swift.credential":      {Class: ChangeFree},
	"spec.backup.recipients":               {Class: ChangeFree, Say: "those of backups that are made from now on"},
	"spec.backup.schedule":                 {Class: ChangeFree},
	"spec.backup.keep":                     {Class: ChangeFree},
	"spec.backup.keep.last":                {Class: ChangeFree},
	"spec.backup.keep.days":                {Class: ChangeFree},
	"spec.backup.keep.weeks":               {Class: ChangeFree},

	"spec.updates.maxSurge":            {Class: ChangeFree},
	"spec.updates.maxUnavailable":      {Class: ChangeFree},
	"spec.updates.os.window":           {Class: ChangeFree},
	"spec.updates.os.window.days":      {Class: ChangeFree},
	"spec.updates.os.window.from":      {Class: ChangeFree},
	"spec.updates.os.window.to":        {Class: ChangeFree},
	"spec.updates.os.hold":             {Class: ChangeFree},
	"spec.repair.after":                {Class: ChangeFree},
	"spec.repair.patience":             {Class: ChangeFree},
	"spec.repair.maxUnhealthy":         {Class: ChangeFree},
	"spec.repair.replace":              {Class: ChangeFree, Say: "it is consent to what naupegos repair does from then on"},
	"spec.unattended.autoscale":        {Class: ChangeFree, Say: "it is consent to what the autoscaler asks for from then on"},
	"spec.unattended.autoscalePort":    {Class: ChangeFree, Say: "autoscalers need the Secret again, with the other port"},
	"spec.unattended.drift":            {Class: ChangeFree},
	"spec.unattended.rehearse":         {Class: ChangeFree},
	"spec.unattended.renew":            {Class: ChangeFree, Say: "it is consent to what naupegos renew does from then on"},
	"spec.unattended.repair":           {Class: ChangeFree, Say: "it is consent to what naupegos repair does from then on"},
	"spec.timeouts.machineBoot":        {Class: ChangeFree},
	"spec.timeouts.nodeReady":          {Class: ChangeFree},
	"spec.timeouts.drain":              {Class: ChangeFree},
	"spec.timeouts.connect":            {Class: ChangeFree},
	"spec.timeouts.step":               {Class: ChangeFree},
	"spec.protect":                     {Class: ChangeFree, Say: "destroy, reset and the removal of control-plane machines are refused as long as it is true"},
	"spec.smokeTest":                   {Class: ChangeFree},
	"spec.updates.soak":                {Class: ChangeFree, Say: "an upgrade that has stayed for longer is finished by the apply"},
	"spec.updates.checks[]":            {Class: ChangeFree},
	"spec.updates.checks[].name":       {Class: ChangeFree},
	"spec.updates.checks[].apiVersion": {Class: ChangeFree},
	"spec.updates.checks[].kind":       {Class: ChangeFree},
	"spec.updates.checks[].namespace":  {Class: ChangeFree},
	"spec.updates.checks[].expression": {Class: ChangeFree},
}.components().shapes("spec.provider.openstack.machine", "spec.endpoint.gateways.machine", "spec.controlPlane.machine", "spec.workers[].machine").
	settings("spec.machines", "spec.controlPlane.machines", "spec.endpoint.gateways.machines", "spec.workers[].machines").
	registries().identity()

// registries adds the rules for the fields of a registry: containerd reads all of them at the next pull.
func (r rules) registries() rules {
	next := r["spec.registries"]
	for _, key := range []string{"host", "mirrors", "mirrors[].url", "mirrors[].capabilities", "mirrors[].overridePath"} {
		r["spec.registries[]."+key] = next
	}
	for _, p := range []string{"spec.registries[]", "spec.registries[].mirrors[]"} {
		for _, key := range []string{"ca", "auth", "auth.credentialsFile", "auth.credential", "insecure"} {
			r[strict.Join(p, key)] = next
		}
	}
	return r
}

// rules says what changes mean, by path.
type rules map[string]ChangeRule

// shapes adds the rules for a MachineShape at each of these paths.
func (r rules) shapes(places ...string) rules {
	another := ChangeRule{Class: ChangeConsent, Say: "replace-machines, for machines that are of another kind now"}
	next := ChangeRule{Class: ChangeFree, Say: "machines that are made from now on have it"}
	for _, p := range places {
		for _, key := range []string{"flavor", "image", "rootVolumeGiB", "rootVolumeType"} {
			r[strict.Join(p, key)] = another
		}
		for _, key := range []string{"zones", "antiAffinity", "userData", "configDrive"} {
			r[strict.Join(p, key)] = next
		}
		r[strict.Join(p, "floatingIP")] = ChangeRule{Class: ChangeConsent, Say: "give-up-addresses, where floating IPs are given back"}
	}
	return r
}

// text returns the rule in words for users.
func (r ChangeRule) text() string {
	if r.Say == "" || r.Say == backOrAnew {
		return string(r.Class)
	}
	return string(r.Class) + ": " + r.Say
}
