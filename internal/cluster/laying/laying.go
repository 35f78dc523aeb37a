// Package laying creates the data directory of an etcd member on its machine: from a snapshot, or from the data of the survivor of a lost quorum.
// It provides scripts and their arguments; the caller runs them and provides the tools.
package laying

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// revisions is the amount by which etcd's revision grows when it starts from a snapshot. It exceeds the number of writes since the snapshot, so
// that watchers do not mistake new events for older ones.
const revisions = 1_000_000_000

// Beyond returns the amount by which revisions must grow to exceed a revision that clients have seen.
func Beyond(seen int64) int64 { return revisions + seen }

// Place describes the directories on a machine.
type Place struct {
	Tools     string // etcd's programs, the snapshot, and the progress; only root can read it
	Data      string // the member's data directory
	Manifests string // of static pods
	Unit      string // of the member if it is not a static pod
	Bump      int64  // by how much revisions grow; 0: by a billion
	servers   string // programs of the control plane besides etcd; empty: those of kubeadm
	Run       string // identifies this run, and names the copy of the former data
}

// On returns the places on a machine of a cluster for one run, with the tools in a directory.
func On(tools, run string) Place {
	return Place{Tools: tools, Data: "/var/lib/etcd", Manifests: "/etc/kubernetes/manifests", Unit: "etcd.service", Run: run}
}

// Kept returns the directory of a member's former data.
func (p Place) Kept() string { return p.Data + "/before-" + p.Run }

const head = `set -eu
umask 077
tools=$1 data=$2 manifests=$3 unit=$4 run=$5
shift 5
`

func (p Place) script(body string, args ...string) []string {
	return append([]string{"sh", "-c", head + body, "sh", p.Tools, p.Data, p.Manifests, p.Unit, p.Run}, args...)
}

// Prepare creates the tools' directory. The script prints "yes" if the data exists already.
func (p Place) Prepare() []string {
	return p.script(`mkdir -p "$tools"; if [ -e "$tools/laid" ]; then echo yes; fi`)
}

// Tidy removes the tools.
func (p Place) Tidy() []string { return p.script(`rm -rf "$tools"`) }

// Put writes a file that it reads from standard input among the tools.
func (p Place) Put(file string) []string {
	return p.script(`cat >"$tools/$1.part"; chmod 700 "$tools/$1.part"; mv "$tools/$1.part" "$tools/$1"`, file)
}

// Lay creates the data directory of member name from Tools/snapshot.db with Tools/etcdutl, once. Initial is the initial cluster, peer the
// member's URL in it. The former data is kept: see Kept.
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

// stop stops a machine's etcd and prevents its restart until the machine is configured. If they are static pods, the API server stops, too: after
// failing for a while it would restart late.
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

// Salvage stops the etcd of a lost quorum's survivor and writes its data to Tools/snapshot.db: its database and all entries of its log that it
// knows to be committed. It refuses, before it stops etcd, if the disks have no room for that. Tools/etcd reads a copy of the data as the only member,
// reachable only for root. ReadSalvaged parses the script's output.
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
if [ ! -e "$data/member" ]; then echo "$data/member does not exist: etcd has no data here" >&2; exit 1; fi
end
room() {
  free=$(df -Pk "$1" | { read -r _; read -r _ _ _ free _; echo "$free"; })
  if [ "$free" -lt "$2" ]; then
    echo "reading etcd's data needs $(($2 / 1024 + 1)) MiB on the disk of $1, where $((free / 1024)) MiB are free: make room, for example by removing old logs" >&2
    exit 1
  fi
}
size=$(du -sk "$data/member" | cut -f1)
if [ "$(stat -c %d "$data")" = "$(stat -c %d "$tools")" ]; then room "$data" $((size * 2)); fi
room "$data" "$size"
room "$tools" "$size"
stop
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

// Salvaged describes a survivor's data.
type Salvaged struct {
	Revision  int64 `json:"revision"`  // the last one: it and everything before are included, nothing after
	Discarded int   `json:"discarded"` // entries of its log that it did not know to be committed, and that were dropped
}

// ReadSalvaged parses the output of Salvage.
func ReadSalvaged(out []byte) (s Salvaged, err error) {
	var said struct {
		Status    struct{ Revision int64 }
		Discarded int
	}
	if err := json.Unmarshal(out, &said); err != nil || said.Status.Revision == 0 {
		return s, fail.New(fail.Internal, "read the remaining state of etcd: %q", strings.TrimSpace(string(out)))
	}
	return Salvaged{Revision: said.Status.Revision, Discarded: said.Discarded}, nil
}

// Next returns the first revision of an etcd that was created from the salvaged data.
func (s Salvaged) Next() int64 { return s.Revision + revisions + 1 }
