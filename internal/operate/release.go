package operate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/handover"
	"github.com/naupegos/naupegos/internal/fail"
)

// ReleaseView returns all files that a cluster's owner needs once Naupegos has forgotten the cluster, including authorities and keys.
var ReleaseView = View[Plainly, Files]{Name: "release", Secret: true, See: func(ctx context.Context, s *Session, _ Plainly) (*Files, error) {
	files, err := s.released(ctx)
	if err != nil {
		return nil, err
	}
	return &Files{Files: files, Taken: TakenOf(files)}, nil
}}

func (s *Session) released(ctx context.Context) (map[string][]byte, error) {
	return s.Cluster.Handover(ctx, cluster.HandoverOptions{Now: time.Now(), CloudsYAML: s.Cluster.CloudsYAML, CloudCA: s.Cluster.CloudCA, Release: true})
}

// TakenOf returns the digest of the authorities and keys in a handover. A client that names it proves to have these. Other files are generated anew
// for each handover and don't count.
func TakenOf(files map[string][]byte) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(name, handover.PKIDir+"/") {
			fmt.Fprintf(sum, "%s:%d:%s\n", name, len(files[name]), files[name])
		}
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil))
}

// planRelease plans to leave a cluster to its owner. A server requires that the client already has the files for the owner; the command writes them in
// a step.
func planRelease(ctx context.Context, b *Begun) error {
	p, err := b.Cluster.PlanRelease(ctx, cluster.ReleaseOptions{HandOver: b.handOver, Forget: b.Forget})
	if err != nil {
		return err
	}
	if b.options.Verb != "" && b.options.HandOver == nil { // refuse before anything begins
		if err := b.handOver(ctx); err != nil {
			return err
		}
	}
	b.only(p)
	b.before = b.Cluster.BeginRelease
	return nil
}

// handOver passes the owner's files to options.HandOver. If that is nil, it refuses unless Asked.Taken proves that the client has them.
func (b *Begun) handOver(ctx context.Context) error {
	files, err := b.released(ctx)
	switch {
	case err != nil:
		return err
	case b.options.HandOver != nil:
		return b.options.HandOver(files)
	case b.Asked.Taken != TakenOf(files):
		return fail.New(fail.Refused, "the authorities and keys of cluster %s would be lost: its owner has not fetched them", b.Record.Name).
			Do("naupegos release fetches them; over HTTP POST /api/v1/clusters/%s/release does, and its answer has the value for taken", b.Record.Name)
	}
	return nil
}
