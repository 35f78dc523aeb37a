// Package laying holds what makes the data directory of a member of etcd on its own machine: of a snapshot, or of what the survivor of a lost
// quorum has. It is scripts and their arguments; who runs them, and with what beside them, is its caller's.
package laying

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// revisions is by how many etcd's revision grows when it starts from a snapshot: more than can have been written since that was made, so that nobody
// who has watched takes what comes now for older than what was seen.
const revisions = 1_000_000_000

// Beyond is by how much revisions grow that are to come after a revision that others have seen.
func Beyond(seen int64) int64 { return revisions + seen }

// Place is where on a machine things lie.
type Place struct {
	Tools     string // etcd's programs, the snapshot, and how far things have got; nobody but root reads it
	Data      string // the member's data directory
	Manifests string // of static pods
	Unit      string // that runs the member where it is no static pod
	Bump      int64  // by how much revisions grow; 0: by a billion
	servers   string // programs of the control plane besides etcd; empty: what kubeadm has
	Run       string // tells this time from others: names what is kept of the data that was there before
}

// On returns the places on a machine of a cluster for one run, with the tools in a directory.
func On(tools, run string) Place {
	return Place{Tools: tools, Data: "/var/lib/etcd", Manifests: "/etc/kubernetes/manifests", Unit: "etcd.service", Run: run}
}

// Kept is where the data lies that a member had before.
func (p Place) Kept() string { return p.Data + "/before-" + p.Run }

const head = `set -eu
umask 077
tools=$1 data=$2 manifests=$3 unit=$4 run=$5
shift 5
`

func (p Place) script(body string, args ...string) []string {
	return append([]string{"sh", "-c", head + body, "sh", p.Tools, p.Data, p.Manifests, p.Unit, p.Run}, args...)
}

// Prepare makes the tools' directory. It says "yes" where the data was laid already.
func (p Place) Prepare() []string {
	return p.script(`mkdir -p "$tools"; if [ -e "$tools/laid" ]; then echo yes; fi`)
}

// Tidy removes the tools.
func (p Place) Tidy() []string { return p.script(`rm -rf "$tools"`) }

// Put writes a file that it reads from standard input among the tools.
func (p Place) Put(file string) []string {
	return p.script(`cat >"$tools/$1.part"; chmod 700 "$tools/$1.part"; mv "$tools/$1.part" "$tools/$1"`, file)
}

// Lay makes the data directory of member name of Tools/snapshot.db with Tools/etcdutl, once. Initial is the initial cluster, peer the member's own
// URL in it. What was there before is kept aside: see Kept.
func (p Place) Lay(name, initial, peer string) []string {
	return p.script(`name=$1 initial=$2 peer=$3 revisions=$4
if [ -e "$tools/laid" ]; then exit 0; fi
mkdir -p "$data"
rm -rf "$data/restoring-$run"
"$tools/etcdutl" snapshot restore "$tools/snapshot.db" --data-dir "$data/restoring-$run" --name "$name" \
  --initial-cluster "$initial" --initial-advertise-peer-urls "$peer" --bump-revision "$revisions" --mark-compacted >"$tools/log" 2>&1 ||
  { tail -n 1 "$tools/log" >&2; exit 1; }
if [ -e "$data/member" ] && [ -e "$data/before-$run" ]; then rm -rf "$data/member"; fi
if [ -e "$data/member" ]; then mv "$data/member" "$data/before-$run"; fi
mv "$data/restoring-$run/member" "$data/member"
rm -rf "$data/restoring-$run" "$tools/snapshot.db" "$tools/etcd" "$tools/etcdctl" "$tools/etcdutl"
sync
touch "$tools/laid"
`, name, initial, peer, strconv.FormatInt(cmp.Or(p.Bump, revisions), 10))
}

// stop ends a machine's etcd, and has it not start again before the machine is configured. Its API server goes with it where they are static pods:
// one that has failed for a while would be started again late.
const stop = `
runs() { grep -qs -e "[-]-data-dir=$data\$" -e "[-]-data-dir=$data[^/[:print:]]" /proc/[0-9]*/cmdline; }
stop() {
  if [ -n "$unit" ] && systemctl is-enabled -q "$unit" 2>/dev/null; then systemctl disable -q --now "$unit"; fi
  if [ -e "$manifests/etcd.yaml" ]; then rm -f "$manifests/kube-apiserver.yaml" "$manifests/etcd.yaml"; fi
  left=240
  while runs; do
    left=$((left - 1))
    if [ "$left" = 0 ]; then echo "etcd still runs 2 minutes after it was to stop: does kubelet run?" >&2; exit 1; fi
    sleep 0.5
  done
}
`

// Halt stops a machine's control plane: controllers first, then its API server, then etcd. Nothing of it starts again before the machine is configured.
func (p Place) Halt() []string {
	return p.script(stop+`lives() { grep -qsa -e "^[^[:cntrl:]]*$1[[:cntrl:]]" /proc/[0-9]*/cmdline; }
for program in $1; do
  rm -f "$manifests/$program.yaml"
done
for program in $1; do
  left=240
  while lives "$program"; do
    left=$((left - 1))
    if [ "$left" = 0 ]; then echo "$program still runs 2 minutes after it was to stop: does kubelet run?" >&2; exit 1; fi
    sleep 0.5
  done
done
stop
`, cmp.Or(p.servers, "kube-controller-manager kube-scheduler kube-apiserver"))
}

// Clear stops a machine's etcd and keeps its data aside, so that it can join as a new member.
func (p Place) Clear() []string {
	return p.script(stop + `stop
if [ -e "$data/member" ] && [ -e "$data/before-$run" ]; then rm -rf "$data/member"; fi
if [ -e "$data/member" ]; then mv "$data/member" "$data/before-$run"; sync; fi
`)
}

// Salvage stops the etcd of a lost quorum's survivor and writes Tools/snapshot.db of what it holds: of its database and of all of its log that it knows to
// be agreed. It is read from a copy, by Tools/etcd as the only member, which nobody reaches but root. What it says is read by ReadSalvaged.
func (p Place) Salvage() []string {
	return p.script(stop + `copy="$data/salvaging-$run"
reader() { grep -qsF "$copy" "/proc/$1/cmdline"; }
end() {
  pid=$(cat "$tools/pid" 2>/dev/null || true)
  if [ -n "$pid" ] && reader "$pid"; then
    kill "$pid"
    left=120
    while reader "$pid"; do
      left=$((left - 1))
      if [ "$left" = 0 ]; then kill -9 "$pid"; break; fi
      sleep 0.5
    done
  fi
  rm -rf "$copy" "$tools/pid"
}
if [ -e "$tools/salvaged" ]; then cat "$tools/salvaged"; exit 0; fi
stop
if [ ! -e "$data/member" ]; then echo "$data/member does not exist: etcd has no data here" >&2; exit 1; fi
end
trap end EXIT
mkdir -p "$copy"
cp -a --reflink=auto "$data/member" "$copy/member"
cd "$tools"
rm -f localhost:1 localhost:2
"$tools/etcd" --data-dir "$copy" --force-new-cluster --listen-client-urls unix://localhost:1 --advertise-client-urls unix://localhost:1 \
  --listen-peer-urls unix://localhost:2 --logger zap --log-outputs stderr >log 2>&1 </dev/null &
echo $! >pid
ctl() { "$tools/etcdctl" --endpoints unix://localhost:1 --command-timeout 5s "$@"; }
left=1200
until ctl get --limit 1 naupegos/ >ctl.log 2>&1; do
  left=$((left - 1))
  if [ "$left" = 0 ] || ! reader "$(cat pid)"; then
    echo "etcd does not start with this data: $(grep -e '"level":"\(fatal\|panic\|error\)"' log | tail -n 1; tail -n 1 ctl.log)" >&2
    exit 1
  fi
  sleep 0.5
done
"$tools/etcdctl" --endpoints unix://localhost:1 snapshot save snapshot.db.part >ctl.log 2>&1 || { tail -n 1 ctl.log >&2; exit 1; }
discarded=$(sed -n 's/.*"number-of-discarded-entries":\([0-9]*\).*/\1/p' log | tail -n 1)
status=$("$tools/etcdutl" snapshot status snapshot.db.part --write-out json)
mv snapshot.db.part snapshot.db
printf '{"status":%s,"discarded":%s}\n' "$status" "${discarded:-0}" >salvaged.part
sync
mv salvaged.part salvaged
cat salvaged
`)
}

// Salvaged says what a survivor held.
type Salvaged struct {
	Revision  int64 `json:"revision"`  // the last one: everything up to it is there, nothing that came after
	Discarded int   `json:"discarded"` // entries of its log that it did not know to be agreed, and that were dropped
}

// ReadSalvaged reads what Salvage says.
func ReadSalvaged(out []byte) (s Salvaged, err error) {
	var said struct {
		Status    struct{ Revision int64 }
		Discarded int
	}
	if err := json.Unmarshal(out, &said); err != nil || said.Status.Revision == 0 {
		return s, fail.New(fail.Internal, "read what is left of etcd: %q", strings.TrimSpace(string(out)))
	}
	return Salvaged{Revision: said.Status.Revision, Discarded: said.Discarded}, nil
}

// Next returns the first revision that etcd gives after it was laid of what was salvaged.
func (s Salvaged) Next() int64 { return s.Revision + revisions + 1 }
