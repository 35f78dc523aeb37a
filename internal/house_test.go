// Package internal_test holds the house's rules about imports and about the sizes of packages, types and functions for `go test ./...`;
// .golangci.yml holds the same import rules for editors and CI. docs/reference/packages.md says what each package is for.
package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/naupegos/naupegos"

// owners says which packages alone may import a library, by the beginning of its import path. Tests are free.
var owners = map[string][]string{
	"k8s.io/client-go":                       {"internal/kube", "internal/kube/userconf", "bench/cluster", "bench/upgrade", "bench/addons", "internal/cli/output", "internal/kube/objects", "internal/chart"}, // the last one knows the API's kinds; the second is a client as users have them, the third reads JSONPath
	"k8s.io/kubectl":                         {"internal/kube"},
	"go.etcd.io/etcd":                        {"internal/etcd"},
	"database/sql":                           {"internal/store", "internal/store/engine", "internal/store/schema", "internal/store/filelock", "internal/store/health", "internal/store/metal", "internal/store/together", "internal/userdir"},
	"modernc.org/sqlite":                     {"internal/store/engine"},
	"github.com/pressly/goose":               {"internal/store/engine", "internal/store/schema"},
	"github.com/jackc/pgx":                   {"internal/store/engine"},
	"filippo.io/age":                         {"internal/backup", "internal/store", "internal/store/archive", "internal/store/rowmac", "internal/store/keyfile", "internal/store/storetest", "api/v1alpha1/validation"}, // the last only reads public keys
	"github.com/google/cel-go":               {"internal/expression"},
	"k8s.io/apiserver":                       {"internal/identity", "api/v1alpha1"}, // the second only has its types
	"helm.sh/helm":                           {"internal/chart", "internal/siteset"},
	"sigs.k8s.io/kustomize":                  {"internal/siteset"},
	"github.com/minio":                       {"internal/backup/s3"},
	"golang.org/x/crypto/ssh":                {"internal/remote", "internal/testkit/sshtest", "api/v1alpha1/validation", "internal/provider/local", "internal/pki"}, // the last three only read and write keys
	"github.com/vishvananda/netlink":         {"internal/provider/local/hostnet", "test/openstack/runner/runner", "internal/agent/boot"},
	"github.com/danielgtaylor/huma":          {"internal/server/api"},
	"github.com/prometheus/client_golang":    {"internal/server/metrics"},
	"golang.org/x/time":                      {"internal/peer"},
	"github.com/coreos/go-oidc":              {"internal/server/issuer", "internal/cli/signin"},
	"golang.org/x/oauth2":                    {"internal/cli/signin", "internal/server/issuer"},
	"github.com/spf13/cobra":                 {"internal/cli", "internal/cli/output", "internal/cli/differ", "internal/cli/metal", "internal/cli/netbooting", "internal/cli/serving", "internal/cli/signin", "internal/cli/watch", "hack/docs", "internal/cli/contexts", "internal/cli/verbs", "internal/cli/shell", "internal/cli/bundling", "internal/cli/people"},
	"charm.land":                             {"internal/cli/form", "internal/cli/watch"},
	"github.com/charmbracelet":               {"internal/plan/show", "internal/plan/words", "internal/cli/watch"},
	"github.com/google/go-containerregistry": {"internal/bundle", "internal/bundle/bundletest", "internal/bundle/images"},
	"github.com/coreos/ignition":             {"internal/machine", "internal/netboot/boot"},
	"github.com/coreos/butane":               {"internal/netboot/boot"},
	"github.com/fsnotify":                    {"internal/netboot/boot"},
	"github.com/insomniacslk/dhcp":           {"internal/netboot", "internal/netboot/dhcp", "internal/netboot/programs", "internal/agent/boot"},
	"github.com/mdlayher/ndp":                {"internal/netboot"},
	"github.com/pin/tftp":                    {"internal/netboot"},
	"github.com/BurntSushi/toml":             {"internal/cluster/adopt/containerd"},
	"github.com/cavaliergopher/cpio":         {"internal/image/discovery"},
	"github.com/bougou/go-ipmi":              {"internal/registry/bmc", "test/rack"},
	"golang.zx2c4.com/wireguard":             {"internal/gateway"}, // only reads and makes keys
	"github.com/gophercloud": {"internal/provider/openstack", "internal/provider/openstack/access", "internal/provider/openstack/balancer",
		"internal/provider/openstack/cloud", "internal/provider/openstack/dns", "internal/provider/openstack/firewall", "internal/provider/openstack/images", "internal/provider/openstack/quota", "internal/provider/openstack/existing",
		"internal/provider/openstack/credential", "internal/provider/openstack/floating", "internal/provider/openstack/volume", "internal/provider/openstack/leftovers", "test/openstack/runner/runner"},
}

// knows says which packages of this module each package may import. Those that are not listed may import all but internal/cli.
var knows = map[string][]string{
	"api/foreign":                  {"api/strict", "internal/fail"},
	"api/strict":                   {"internal/fail"},
	"api/v1alpha1":                 {"api/strict", "api/v1alpha1/certificates", "api/v1alpha1/change", "api/v1alpha1/eviction", "api/v1alpha1/monitoring", "api/v1alpha1/nodedns", "api/v1alpha1/telemetry", "api/v1alpha1/volumes", "internal/fail", "internal/identity", "internal/machine/items", "internal/release"},
	"api/v1alpha1/validation":      {"api/foreign", "api/strict", "api/v1alpha1", "api/v1alpha1/nodedns", "api/v1alpha1/ports", "api/v1alpha1/telemetry", "internal/expression", "internal/fail", "internal/identity", "internal/machine/items", "internal/place", "internal/release", "internal/release/flags", "internal/schedule"},
	"api/v1alpha1/change":          {"api/strict"},
	"api/v1alpha1/certificates":    {"api/strict"},
	"api/v1alpha1/eviction":        {"api/strict"},
	"api/v1alpha1/monitoring":      {"api/strict"},
	"api/v1alpha1/nodedns":         {"api/strict"},
	"api/v1alpha1/ports":           {"api/strict"},
	"api/v1alpha1/telemetry":       {"api/strict"},
	"api/v1alpha1/volumes":         {"api/strict"},
	"api/v1alpha1/describe":        {"api/strict", "api/v1alpha1", "internal/fail"},
	"api/v1alpha1/sample":          {"api/v1alpha1", "api/v1alpha1/validation", "internal/fail"},
	"internal/place":               {},
	"internal/schedule":            {},
	"internal/fail":                {},
	"internal/interrupt":           {},
	"internal/scheme":              {"internal/fail"},
	"internal/userdir":             {"internal/fail"},
	"internal/testkit":             {"internal/fail"},
	"internal/testkit/sshtest":     {"internal/testkit"},
	"internal/plan":                {"internal/fail", "internal/interrupt", "internal/plan/delta", "internal/plan/words"},
	"internal/plan/delta":          {},
	"internal/plan/show":           {"internal/fail", "internal/plan", "internal/plan/delta", "internal/plan/words"},
	"internal/plan/words":          {},
	"internal/machine":             {"internal/fail", "internal/machine/items"},
	"internal/machine/items":       {},
	"internal/agent":               {"internal/agent/bootargs", "internal/agent/containerd", "internal/agent/dpkg", "internal/agent/host", "internal/fail", "internal/machine"},
	"internal/agent/gatewaycheck":  {"internal/fail"},
	"internal/agent/registrycheck": {"internal/scheme"},
	"internal/agent/containerd":    {"internal/fail"},
	"internal/agent/imageserver":   {"internal/fail"},
	"internal/agent/host":          {"internal/fail", "internal/machine"},
	"internal/agent/approver":      {"internal/fail"},
	"internal/agent/bootargs":      {"internal/agent/host", "internal/fail"},
	"internal/agent/dpkg":          {},
	"internal/agent/boot":          {"internal/agent/discover", "internal/agent/host", "internal/fail", "internal/registry/facts"},
	"internal/agent/discover":      {"internal/agent/disks", "internal/agent/host", "internal/fail", "internal/registry/facts"},
	"internal/agent/disks":         {"internal/agent/host", "internal/fail", "internal/registry/facts"},
	"internal/agent/install":       {"internal/agent/disks", "internal/agent/host", "internal/agent/install/ask", "internal/agent/install/slots", "internal/fail", "internal/registry/facts", "internal/registry/order"},
	"internal/agent/install/ask":   {"internal/fail", "internal/registry/order"},
	"internal/agent/install/slots": {"internal/fail"},
	"internal/agent/logs":          {"internal/fail", "internal/logs"},
	"internal/logs":                {"internal/fail"},
	"internal/agent/keep":          {"internal/agent/install", "internal/agent/install/ask", "internal/agent/install/slots", "internal/fail", "internal/registry/order"},
	"internal/agent/turns":         {"internal/backup", "internal/backup/s3", "internal/backup/swift", "internal/fail", "internal/schedule"},
	"internal/agent/vrrp":          {"internal/fail"},
	"cmd/naupegos-agent":           {"internal/agent", "internal/agent/gatewaycheck", "internal/agent/imageserver", "internal/agent/registrycheck", "internal/agent/logs", "internal/logs", "internal/agent/approver", "internal/agent/boot", "internal/agent/discover", "internal/agent/keep", "internal/agent/install", "internal/agent/turns", "internal/agent/vrrp", "internal/agent/host", "internal/fail", "internal/machine", "internal/registry/facts", "internal/registry/order"},
	"internal/backup":              {"internal/fail", "internal/within"},
	"internal/backup/s3":           {"internal/backup", "internal/fail", "internal/scheme"},
	"internal/backup/swift":        {"internal/backup", "internal/fail", "internal/scheme"},
	"internal/pki":                 {"internal/fail"},
	"internal/policy":              {"api/v1alpha1", "internal/fail", "internal/place"},
	"internal/pki/vault":           {"api/v1alpha1", "internal/fail", "internal/pki", "internal/scheme"},
	"internal/pki/pkitest":         {"internal/fail", "internal/pki", "internal/testkit"},
	"internal/peer":                {"internal/plan/words"},
	"internal/registry":            {"internal/fail", "internal/peer", "internal/plan/words", "internal/registry/bmc", "internal/registry/facts", "internal/registry/order", "internal/store/metal"},
	"internal/registry/bmc":        {"internal/fail"},
	"internal/web/charts":          {"internal/kube/figures", "internal/plan/words"},
	"internal/web":                 {"internal/kube/figures", "internal/kube/running", "internal/web/charts", "api/v1alpha1", "api/v1alpha1/validation", "api/v1alpha1/sample", "internal/backup", "internal/cluster/backups", "internal/cluster/env", "internal/cluster/report", "internal/fail", "internal/gitread", "internal/operate", "internal/plan", "internal/plan/show", "internal/plan/words", "internal/registry", "internal/registry/facts", "internal/release", "internal/server", "internal/server/access", "internal/server/follow", "internal/server/problem", "internal/server/watch", "internal/server/work", "internal/store", "internal/store/metal", "internal/plan/delta"},
	"internal/gitread/gittest":     {"internal/testkit"},
	"internal/gitread":             {"internal/fail", "internal/place", "internal/plan/words"},
	"internal/registry/facts":      {"internal/fail"},
	"internal/registry/order":      {"internal/fail"},
	"internal/server/routes": {"internal/fail", "internal/peer", "internal/plan/words", "internal/registry", "internal/server/routes/client", "internal/registry/facts", "internal/registry/order", "internal/server",
		"internal/server/problem", "internal/store/metal"},
	"internal/expression":             {},
	"internal/identity":               {"internal/fail"},
	"internal/autoscale":              {"internal/autoscale/externalgrpc", "internal/cluster/scaling", "internal/fail"},
	"internal/autoscale/externalgrpc": {},
	"internal/release":                {},
	"internal/release/flags":          {},
	"internal/cli/bundles":            {"api/v1alpha1", "internal/bundle", "internal/cli/progress", "internal/fail", "internal/provider/local"},
	"internal/cli/bundling":           {"internal/bundle", "internal/bundle/images", "internal/chart", "internal/siteset", "internal/cli/bundles", "internal/cli/flags", "internal/cli/output", "internal/cli/progress", "internal/cli/terminal", "internal/cli/wholefile", "internal/fail", "internal/plan/words", "internal/release"},
	"internal/cli/contexts":           {"internal/cli/output", "internal/cli/wholefile", "internal/fail", "internal/store", "internal/store/engine", "internal/store/filelock", "internal/userdir"},
	"internal/cli/verbs":              {"internal/cli/terminal", "internal/fail", "internal/interrupt", "internal/plan"},
	"internal/cli/differ":             {"internal/cli/output", "internal/fail", "internal/plan", "internal/plan/delta", "internal/plan/show"},
	"internal/cli/flags":              {"internal/cluster/parts", "internal/fail", "internal/plan/show"},
	"internal/cli/form":               {"api/v1alpha1", "api/v1alpha1/sample", "internal/cli/terminal", "internal/fail"},
	"internal/cli/hostkeys":           {"api/v1alpha1", "internal/fail"},
	"internal/cli/infile":             {"api/strict", "internal/fail"},
	"internal/cli/killpoint":          {"internal/plan"},
	"internal/cli/metal":              {"internal/cli/output", "internal/fail", "internal/registry", "internal/server/routes/client", "internal/registry/order", "internal/scheme", "internal/tool"},
	"internal/cli/netbooting":         {"internal/cli/output", "internal/fail", "internal/image/discovery", "internal/plan", "internal/netboot", "internal/netboot/boot", "internal/netboot/dhcp", "internal/peer", "internal/server", "internal/server/front", "internal/server/problem", "internal/tool", "internal/userdir"},
	"internal/cli/output":             {"api/v1alpha1", "internal/fail", "internal/plan/words", "internal/tool"},
	"internal/cli/progress":           {"internal/bundle"},
	"internal/cli/savedplan":          {"api/v1alpha1", "api/v1alpha1/validation", "internal/cli/wholefile", "internal/cluster", "internal/cluster/parts", "internal/fail", "internal/operate", "internal/plan/show"},
	"internal/scratch":                {"internal/fail"},
	"internal/cli/serving":            {"api/v1alpha1", "api/v1alpha1/validation", "internal/cli/netbooting", "internal/cli/output", "internal/cli/wholefile", "internal/client", "internal/fail", "internal/gitread", "internal/image", "internal/netboot", "internal/operate", "internal/plan", "internal/plan/delta", "internal/plan/show", "internal/plan/words", "internal/policy", "internal/registry", "internal/registry/bmc", "internal/registry/facts", "internal/registry/order", "internal/server/routes", "internal/server", "internal/server/access", "internal/server/api", "internal/server/authority", "internal/server/follow", "internal/server/forward", "internal/server/front", "internal/server/issuer", "internal/server/metrics", "internal/server/notify", "internal/server/problem", "internal/server/work", "internal/store", "internal/web", "internal/cluster/report", "internal/server/link", "internal/server/watch", "internal/siteset", "internal/userdir"},
	"internal/cli/shell":              {"internal/cli/output", "internal/client", "internal/cluster/connect", "internal/cluster/support", "internal/fail", "internal/logs", "internal/operate", "internal/provider", "internal/remote", "internal/tool"},
	"internal/cli/signin":             {"internal/cli/wholefile", "internal/client", "internal/cluster", "internal/fail", "internal/plan/words", "internal/server/issuer"},
	"internal/cli/people":             {"internal/cli/output", "internal/cluster", "internal/cluster/connect", "internal/fail", "internal/kube/access", "internal/kube/userconf", "internal/operate"},
	"internal/cli/terminal":           {"internal/fail"},
	"internal/cli/watch":              {"internal/cli/output", "internal/cluster/backups", "internal/cluster/report", "internal/fail", "internal/kube", "internal/operate", "internal/pki", "internal/plan/words", "internal/provider"},
	"internal/cli/wholefile":          {"internal/fail"},
	"internal/client":                 {"internal/cluster/report", "internal/fail", "internal/operate", "internal/plan", "internal/scheme", "internal/server/api", "internal/server/issuer", "internal/server/problem", "internal/server/work", "internal/store"},
	"internal/server":                 {"internal/fail", "internal/peer", "internal/plan/words", "internal/server/authority", "internal/server/problem"},
	"internal/server/access":          {"internal/fail", "internal/peer", "internal/plan", "internal/plan/words", "internal/server", "internal/server/problem", "internal/store", "internal/store/health"},
	"internal/server/follow":          {"api/v1alpha1", "api/v1alpha1/validation", "internal/fail", "internal/gitread", "internal/operate", "internal/plan", "internal/plan/show", "internal/plan/words", "internal/policy", "internal/server/work", "internal/siteset", "internal/store"},
	"internal/server/forward":         {"internal/fail", "internal/scheme", "internal/store"},
	"internal/server/front":           {"internal/fail", "internal/server/problem"},
	"internal/server/api":             {"internal/cluster/report", "internal/fail", "internal/kube/figures", "internal/operate", "internal/plan", "internal/plan/show", "internal/server", "internal/server/access", "internal/server/follow", "internal/server/problem", "internal/server/work", "internal/store"},
	"internal/server/authority":       {"internal/fail"},
	"internal/server/link":            {"internal/fail", "internal/server", "internal/server/access", "internal/store"},
	"internal/server/notify":          {"api/v1alpha1", "internal/cluster/report", "internal/fail", "internal/plan", "internal/plan/words", "internal/registry", "internal/scheme", "internal/server/watch", "internal/server/work", "internal/store", "internal/store/metal"},
	"internal/server/metrics":         {"internal/server", "internal/server/watch", "internal/store"},
	"internal/server/watch":           {"internal/cluster/report", "internal/fail", "internal/store", "internal/store/health"},
	"internal/server/work":            {"api/v1alpha1", "api/v1alpha1/validation", "internal/cluster/upkeep", "internal/fail", "internal/operate", "internal/plan", "internal/plan/show", "internal/store"},
	"internal/server/issuer":          {"internal/fail", "internal/peer", "internal/scheme", "internal/server", "internal/server/access", "internal/server/problem", "internal/store"},
	"internal/server/problem":         {"internal/fail"},
	"internal/bundle":                 {"internal/bundle/catalogue", "internal/bundle/content", "internal/fail", "internal/release", "internal/scheme", "internal/userdir"},
	"internal/bundle/catalogue":       {},
	"internal/bundle/content":         {"internal/fail"},
	"internal/bundle/images":          {"internal/bundle", "internal/fail"},
	"internal/bundle/bundletest":      {"internal/bundle", "internal/release"},
	"internal/addon":                  {"api/v1alpha1", "api/v1alpha1/monitoring", "api/v1alpha1/nodedns", "api/v1alpha1/telemetry", "internal/bundle", "internal/bundle/catalogue", "internal/fail"},
	"internal/gateway":                {"internal/fail", "internal/machine"},
	"internal/etcd":                   {"internal/fail"},
	"internal/netboot":                {"internal/fail", "internal/netboot/boot", "internal/netboot/dhcp", "internal/netboot/programs", "internal/peer"},
	"internal/netboot/boot":           {"internal/fail", "internal/peer", "internal/within"},
	"internal/within":                 {"internal/fail"},
	"internal/netboot/dhcp":           {"internal/fail"},
	"internal/netboot/programs":       {"internal/fail"},
	"internal/kube/layout":            {"internal/bundle", "internal/fail", "internal/kube/manifest", "internal/machine", "internal/pki", "internal/release", "internal/release/flags"},
	"internal/kube":                   {"internal/expression", "internal/fail", "internal/kube/layout", "internal/kube/manifest", "internal/machine", "internal/release", "internal/plan/delta", "internal/kube/answer", "internal/kube/objects"},
	"internal/kube/manifest":          {"internal/fail"},
	"internal/kube/userconf":          {"internal/fail"},
	"internal/kube/proof":             {"internal/fail", "internal/kube", "internal/kube/answer"},
	"internal/kube/figures":           {"internal/fail", "internal/kube", "internal/plan/words"},
	"internal/kube/running":           {"internal/fail", "internal/kube", "internal/plan/words"},
	"internal/kube/access":            {"internal/fail", "internal/kube", "internal/kube/objects"},
	"internal/cluster/env":            {"api/v1alpha1", "api/v1alpha1/validation", "internal/backup", "internal/backup/s3", "internal/backup/swift", "internal/bundle", "internal/cluster/hops", "internal/cluster/laying", "internal/cluster/memory", "internal/cluster/rotation", "internal/cluster/scaling", "internal/cluster/wanted", "internal/fail", "internal/kube/layout", "internal/machine", "internal/pki", "internal/pki/vault", "internal/place", "internal/policy", "internal/provider", "internal/release", "internal/schedule", "internal/store"},
	"internal/cluster/connect":        {"api/v1alpha1", "internal/cluster/env", "internal/cluster/login", "internal/cluster/memory", "internal/etcd", "internal/fail", "internal/kube", "internal/kube/layout", "internal/machine", "internal/pki", "internal/policy", "internal/provider", "internal/provider/reach", "internal/remote"},
	"internal/cluster/render":         {"api/v1alpha1", "internal/addon", "internal/agent/imageserver", "internal/agent/registrycheck", "internal/agent/turns", "internal/backup", "internal/backup/s3", "internal/backup/swift", "internal/bundle", "internal/cluster/connect", "internal/cluster/filter", "internal/cluster/inside", "internal/cluster/memory", "internal/cluster/programs", "internal/cluster/site", "internal/cluster/wanted", "internal/cluster/wireguard", "internal/fail", "internal/gateway", "internal/kube", "internal/kube/layout", "internal/machine", "internal/pki", "internal/provider", "internal/provider/reach", "internal/identity", "internal/release/flags"},
	"internal/cluster/programs":       {"api/v1alpha1", "internal/cluster/site", "internal/fail", "internal/identity", "internal/kube/layout", "internal/machine", "internal/release/flags"},
	"internal/cluster/observe":        {"api/v1alpha1", "api/v1alpha1/validation", "internal/addon", "internal/cluster/connect", "internal/cluster/env", "internal/cluster/filter", "internal/cluster/hops", "internal/cluster/inside", "internal/cluster/judge", "internal/cluster/memory", "internal/cluster/render", "internal/cluster/scaling", "internal/cluster/wanted", "internal/etcd", "internal/fail", "internal/kube", "internal/kube/layout", "internal/machine", "internal/pki", "internal/plan", "internal/plan/words", "internal/provider", "internal/release", "internal/remote", "internal/plan/delta", "internal/chart", "internal/kube/objects", "internal/siteset"},
	"internal/cluster/stage":          {"internal/plan"},
	"internal/cluster/nodes":          {"internal/cluster/connect", "internal/cluster/env", "internal/cluster/hops", "internal/cluster/memory", "internal/cluster/observe", "internal/cluster/support", "internal/cluster/wanted", "internal/etcd", "internal/fail", "internal/gateway", "internal/kube", "internal/kube/layout", "internal/machine", "internal/plan", "internal/plan/words", "internal/provider", "internal/remote", "internal/tool"},
	"internal/cluster/backups":        {"api/v1alpha1", "internal/agent/turns", "internal/backup", "internal/cluster/connect", "internal/cluster/env", "internal/cluster/laying", "internal/cluster/memory", "internal/cluster/nodes", "internal/cluster/observe", "internal/cluster/stage", "internal/cluster/wanted", "internal/etcd", "internal/fail", "internal/kube/layout", "internal/pki", "internal/plan", "internal/plan/words", "internal/provider", "internal/store"},
	"internal/cluster/addons":         {"api/v1alpha1", "internal/addon", "internal/cluster/backups", "internal/cluster/env", "internal/cluster/handover", "internal/cluster/memory", "internal/cluster/observe", "internal/cluster/stage", "internal/fail", "internal/kube", "internal/kube/access", "internal/kube/layout", "internal/kube/proof", "internal/plan", "internal/plan/words", "internal/provider", "internal/remote", "internal/chart", "internal/kube/manifest", "internal/kube/objects", "internal/siteset"},
	"internal/cluster/staged":         {"api/v1alpha1", "internal/cluster/addons", "internal/cluster/env", "internal/cluster/hops", "internal/cluster/memory", "internal/cluster/observe", "internal/cluster/rotation", "internal/cluster/scaling", "internal/cluster/wanted", "internal/etcd", "internal/fail", "internal/kube", "internal/kube/layout", "internal/machine", "internal/pki", "internal/plan", "internal/plan/words", "internal/provider", "internal/release", "internal/store"},
	"internal/cluster/removal":        {"internal/addon", "internal/cluster/env", "internal/cluster/memory", "internal/cluster/nodes", "internal/cluster/observe", "internal/cluster/stage", "internal/cluster/staged", "internal/cluster/wanted", "internal/fail", "internal/kube", "internal/pki", "internal/plan", "internal/provider"},
	"internal/cluster/report":         {"api/v1alpha1", "api/v1alpha1/validation", "internal/addon", "internal/kube/figures", "internal/kube/running", "internal/cluster/backups", "internal/cluster/env", "internal/cluster/memory", "internal/cluster/nodes", "internal/cluster/observe", "internal/cluster/removal", "internal/cluster/support", "internal/cluster/upkeep", "internal/cluster/wanted", "internal/etcd", "internal/fail", "internal/kube", "internal/machine", "internal/pki", "internal/plan/words", "internal/provider", "internal/remote", "internal/kube/objects"},
	"internal/cluster/site":           {"api/v1alpha1", "internal/agent/registrycheck", "internal/fail", "internal/machine"},
	"internal/cluster/inside":         {"internal/agent/imageserver", "internal/fail", "internal/machine"},
	"internal/kube/answer":            {"internal/fail"},
	"internal/kube/objects":           {"internal/fail", "internal/kube/answer", "internal/kube/manifest", "internal/machine", "internal/plan/delta"},
	"internal/chart":                  {"internal/fail", "internal/kube/manifest"},
	"internal/siteset":                {"api/v1alpha1", "api/v1alpha1/validation", "internal/chart", "internal/fail", "internal/kube/manifest", "internal/kube/objects", "internal/queue"},
	"internal/queue":                  {},
	"internal/cluster/filter":         {"internal/fail", "internal/machine"},
	"internal/cluster/hops":           {"internal/fail", "internal/release"},
	"internal/cluster/judge":          {"internal/fail", "internal/machine", "internal/provider"},
	"internal/cluster/laying":         {"internal/fail"},
	"internal/cluster/login":          {"api/v1alpha1", "internal/fail", "internal/remote"},
	"internal/cluster/rotation":       {"internal/fail", "internal/pki"},
	"internal/cluster/handover":       {"internal/fail", "internal/pki", "internal/provider", "internal/within"},
	"internal/cluster/memory":         {"internal/backup", "internal/fail", "internal/pki", "internal/provider", "internal/store"},
	"internal/cluster/parts":          {"internal/fail", "internal/plan"},
	"internal/cluster/scaling":        {"api/v1alpha1", "internal/cluster/memory", "internal/fail"},
	"internal/cluster/support":        {"internal/fail", "internal/pki", "internal/provider", "internal/remote"},
	"internal/cluster/upkeep":         {"internal/fail"},
	"internal/cluster/wanted":         {"api/v1alpha1", "internal/fail", "internal/provider"},
	"internal/cluster/wireguard":      {"api/v1alpha1", "internal/cluster/memory", "internal/fail", "internal/gateway", "internal/machine", "internal/pki"},
	"internal/remote":                 {"internal/fail", "internal/machine"},
	"internal/tool":                   {"internal/plan/words"},
	"internal/image": {"internal/agent/install/slots", "internal/bundle", "internal/fail", "internal/machine", "internal/plan", "internal/registry/order", "internal/rootfs", "internal/tool",
		"internal/within"},
	"internal/kube/figures/figurestest": {"internal/kube", "internal/kube/figures",
		"internal/testkit"},
	"internal/image/discovery": {"internal/fail", "internal/plan", "internal/rootfs", "internal/tool", "internal/within"},
	"internal/rootfs":          {"internal/bundle", "internal/fail", "internal/machine", "internal/plan", "internal/tool"},
	"internal/store":           {"internal/fail", "internal/plan", "internal/plan/words", "internal/store/archive", "internal/store/engine", "internal/store/filelock", "internal/store/health", "internal/store/keyfile", "internal/store/metal", "internal/store/process", "internal/store/rowmac", "internal/store/schema", "internal/store/together", "internal/userdir"},
	"internal/store/archive":   {"internal/fail"},
	"internal/store/engine":    {"internal/fail", "internal/store/filelock"},
	"internal/store/process":   {"internal/fail"},
	"internal/store/rowmac":    {},
	"internal/store/schema":    {"internal/store/metal"},
	"internal/store/filelock":  {"internal/fail", "internal/plan/words"},
	"internal/store/keyfile":   {"internal/fail", "internal/plan/words"},
	"internal/store/health":    {"internal/fail", "internal/store/metal"},
	"internal/store/metal":     {"internal/fail"},
	"internal/store/together":  {},
	"internal/store/storetest": {"internal/fail", "internal/plan", "internal/store", "internal/store/health", "internal/store/metal", "internal/testkit"},
	"internal/provider":        {"internal/fail", "internal/plan"},
	"internal/providers": {"api/v1alpha1", "internal/bundle", "internal/fail", "internal/image", "internal/provider", "internal/provider/hosts", "internal/provider/local",
		"internal/provider/metal", "internal/provider/openstack", "internal/registry", "internal/registry/bmc", "internal/registry/order", "internal/store"},
	"internal/provider/metal": {"api/v1alpha1", "internal/fail", "internal/plan", "internal/provider", "internal/provider/hosts", "internal/registry", "internal/registry/bmc", "internal/registry/facts",
		"internal/registry/order", "internal/remote", "internal/store/metal"},
	"internal/provider/local/localtest": {"internal/provider/local"},
	"internal/provider/hosts":           {"api/v1alpha1", "internal/fail", "internal/plan", "internal/provider", "internal/provider/reach", "internal/remote"},
	"internal/provider/reach":           {"internal/provider", "internal/remote"},
	"internal/cluster/adopt/containerd": {},
	"internal/cluster/adopt":            {"api/v1alpha1", "api/v1alpha1/validation", "internal/cluster/adopt/containerd", "internal/cluster/hops", "internal/cluster/memory", "internal/cluster/programs", "internal/fail", "internal/kube", "internal/kube/layout", "internal/machine", "internal/pki", "internal/plan/words", "internal/release", "internal/release/flags", "internal/remote", "internal/store"},
	"internal/rehearse": {"api/v1alpha1", "internal/backup", "internal/bundle", "internal/cluster/memory", "internal/etcd", "internal/fail", "internal/kube", "internal/kube/objects",
		"internal/kube/layout", "internal/pki", "internal/tool"},
	"internal/provider/openstack": {"api/v1alpha1", "internal/fail", "internal/plan", "internal/provider",
		"internal/provider/openstack/balancer", "internal/provider/openstack/cache",
		"internal/provider/openstack/access", "internal/provider/openstack/cloud", "internal/provider/openstack/dns", "internal/provider/openstack/firewall", "internal/provider/openstack/marks",
		"internal/provider/openstack/quota", "internal/provider/openstack/existing", "internal/provider/openstack/credential", "internal/provider/openstack/floating", "internal/provider/openstack/volume", "internal/provider/openstack/leftovers"},
	"internal/provider/openstack/access": {"internal/provider/openstack/cloud"},
	"internal/provider/openstack/balancer": {"api/v1alpha1", "internal/fail", "internal/plan", "internal/provider", "internal/provider/openstack/cloud",
		"internal/provider/openstack/marks", "internal/provider/openstack/quota"},
	"internal/provider/openstack/cache": {"internal/provider/openstack/cloud"},
	"internal/provider/openstack/cloud": {"internal/fail", "internal/scheme", "internal/provider", "internal/provider/openstack/settings"},
	"internal/provider/openstack/dns": {"api/v1alpha1", "internal/fail", "internal/plan", "internal/provider", "internal/provider/openstack/cache",
		"internal/provider/openstack/cloud", "internal/provider/openstack/marks"},
	"internal/provider/openstack/firewall":   {"api/v1alpha1", "internal/provider"},
	"internal/provider/openstack/images":     {"internal/fail", "internal/plan", "internal/provider/openstack/cloud"},
	"internal/provider/openstack/marks":      {"api/v1alpha1", "internal/provider"},
	"internal/provider/openstack/existing":   {"api/v1alpha1", "internal/fail", "internal/provider", "internal/provider/openstack/cloud"},
	"internal/provider/openstack/credential": {"internal/fail", "internal/provider", "internal/provider/openstack/access", "internal/provider/openstack/cloud", "internal/provider/openstack/marks"},
	"internal/provider/openstack/floating":   {"api/v1alpha1", "internal/fail", "internal/plan", "internal/provider", "internal/provider/openstack/balancer", "internal/provider/openstack/cache", "internal/provider/openstack/cloud", "internal/provider/openstack/existing", "internal/provider/openstack/marks"},
	"internal/provider/openstack/volume":     {"api/v1alpha1", "internal/fail", "internal/plan", "internal/provider", "internal/provider/openstack/cache", "internal/provider/openstack/cloud", "internal/provider/openstack/existing", "internal/provider/openstack/marks"},
	"internal/provider/openstack/leftovers":  {"internal/fail", "internal/plan", "internal/provider", "internal/provider/openstack/balancer", "internal/provider/openstack/cloud", "internal/provider/openstack/marks", "internal/provider/openstack/volume"},
	"internal/provider/openstack/quota":      {"internal/fail", "internal/provider/openstack/cloud"},
	"internal/provider/openstack/settings":   {"internal/fail"},
	"internal/provider/providertest":         {"internal/fail", "internal/plan", "internal/provider", "internal/testkit"},
	"internal/provider/local": {"internal/bundle", "internal/fail", "internal/machine", "internal/plan", "internal/provider",
		"internal/provider/local/address", "internal/provider/local/files", "internal/provider/local/hostnet", "internal/provider/local/layers",
		"internal/provider/local/process", "internal/provider/local/shared", "internal/rootfs", "internal/tool", "internal/userdir"},
	"internal/provider/local/address": {"internal/fail", "internal/provider"},
	"internal/provider/local/files":   {"internal/fail", "internal/tool"},
	"internal/provider/local/hostnet": {"internal/fail", "internal/provider/local/address", "internal/provider/local/files", "internal/tool"},
	"internal/provider/local/layers": {"internal/bundle", "internal/fail", "internal/machine", "internal/plan", "internal/provider/local/files",
		"internal/provider/local/process", "internal/rootfs", "internal/tool"},
	"internal/provider/local/process": {"internal/fail", "internal/provider/local/files", "internal/tool"},
	"internal/provider/local/shared": {"internal/provider/local/files", "internal/provider/local/hostnet",
		"internal/provider/local/process"},

	"internal/server/routes/client": {"internal/fail", "internal/registry", "internal/registry/facts", "internal/registry/order", "internal/server/problem", "internal/store/metal"},
}

// mayUseProviders lists the only packages that may know one provider or another; all others go by provider.Provider.
var mayUseProviders = []string{"internal/providers", "internal/cli", "cmd/naupegos", "bench/local", "bench/openstack", "test/openstack/runner", "test/openstack/runner/runner"}

// mayUseCLI lists the only packages that may import internal/cli. Its rooms are its own.
var mayUseCLI = []string{"cmd/naupegos", "hack/docs"}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		allowed, listed := knows[name]
		for _, imp := range p.Imports {
			if own, ok := strings.CutPrefix(imp, module+"/"); ok {
				switch {
				case listed && !slices.Contains(allowed, own):
					t.Errorf("%s imports %s: it may know only %v", name, own, allowed)
				case !listed && strings.HasPrefix(own, "internal/provider/") && !slices.Contains(mayUseProviders, name):
					t.Errorf("%s imports %s: only %v may", name, own, mayUseProviders)
				case own == "internal/cli" && !slices.Contains(mayUseCLI, name):
					t.Errorf("%s imports %s: only %v may", name, own, mayUseCLI)
				case !listed && strings.HasPrefix(own, "internal/cli/") && name != "internal/cli":
					t.Errorf("%s imports %s: only internal/cli may", name, own)
				}
				continue
			}
			for lib, who := range owners {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !slices.Contains(who, name) {
					t.Errorf("%s imports %s: only %v may", name, imp, who)
				}
			}
		}
	}
}

// TestRulesAreAlive makes sure that no rule is about a package that is gone.
func TestRulesAreAlive(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		seen[strings.TrimPrefix(p.ImportPath, module+"/")] = true
	}
	for name, others := range knows {
		for _, n := range append([]string{name}, others...) {
			if !seen[n] {
				t.Errorf("there is a rule about %s, which does not exist", n)
			}
		}
	}
	for lib, who := range owners {
		for _, n := range who {
			if !seen[n] {
				t.Errorf("%s may import %s, and does not exist", n, lib)
			}
		}
	}
}

// TestPackagesPage compares docs/reference/packages.md with the packages below internal and api.
func TestPackagesPage(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/packages.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllSubmatch(page, -1) {
		rows[string(row[1])] = true
	}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if !rows[name] && (strings.HasPrefix(name, "internal") || strings.HasPrefix(name, "api/")) {
			t.Errorf("%s has no row", name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("the row of %s has no package", name)
	}
}

// goPackage is what go list tells of a package.
type goPackage struct {
	ImportPath string
	Imports    []string
}

// packages lists the packages of this module with what they import outside of tests.
func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	imports := 0
	for _, p := range all {
		imports += len(p.Imports)
	}
	if len(all) < 15 || imports < 10*len(all) {
		t.Fatalf("go list found only %d packages with %d imports", len(all), imports)
	}
	return all
}

// clusterLayers are the packages that share the work on one cluster, the lowest first. The type of each embeds that of the one below.
var clusterLayers = []string{"env", "connect", "render", "observe", "nodes", "backups", "addons", "staged", "removal", "report"}

// TestClusterLayers rejects an import that points up.
func TestClusterLayers(t *testing.T) {
	found := 0
	for _, p := range packages(t) {
		at := slices.Index(clusterLayers, strings.TrimPrefix(p.ImportPath, module+"/internal/cluster/"))
		if at < 0 {
			continue
		}
		found++
		for _, imp := range p.Imports {
			if to := slices.Index(clusterLayers, strings.TrimPrefix(imp, module+"/internal/cluster/")); to > at || imp == module+"/internal/cluster" {
				t.Errorf("%s imports %s, which lies above it", p.ImportPath, imp)
			}
		}
	}
	if found != len(clusterLayers) {
		t.Errorf("%d of %d layers exist", found, len(clusterLayers))
	}
}

// folders lists the folders of the module from the ground up: a package imports its own folder and those before it. Folders next to each other need no order.
var folders = strings.Fields(`
	expression fail identity machine place release schedule api
	scheme within backup logs interrupt plan peer queue testkit userdir store registry agent
	bundle pki kube chart addon etcd gateway policy remote tool rootfs
	provider image providers siteset
	cluster
	autoscale rehearse scratch operate
	gitread server client netboot web cli cmd`)

// TestNoImportPointsUp rejects an import of a folder that lies above the importing one.
func TestNoImportPointsUp(t *testing.T) {
	folder := func(path string) string {
		name := strings.TrimPrefix(strings.TrimPrefix(path, module+"/"), "internal/")
		name, _, _ = strings.Cut(name, "/")
		return name
	}
	found := map[string]bool{}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if name == "internal" || !strings.HasPrefix(name, "internal/") && !strings.HasPrefix(name, "api/") && !strings.HasPrefix(name, "cmd/") {
			continue
		}
		at := slices.Index(folders, folder(p.ImportPath))
		if at < 0 {
			t.Errorf("%s: give its folder a place in folders", name)
			continue
		}
		found[folders[at]] = true
		for _, imp := range p.Imports {
			if own, ok := strings.CutPrefix(imp, module+"/"); ok && slices.Index(folders, folder(imp)) > at {
				t.Errorf("%s imports %s, whose folder lies above it", name, own)
			}
		}
	}
	for _, f := range folders {
		if !found[f] {
			t.Errorf("there is no folder %s", f)
		}
	}
}
