package turns

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/backup/s3"
	"github.com/naupegos/naupegos/internal/backup/swift"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/schedule"
)

// registry is the prefix of Kubernetes' objects in etcd.
const registry = "/registry/"

// Options are the dependencies and settings of a run.
type Options struct {
	Settings string // file with the Settings
	Log      *slog.Logger
	Now      func() time.Time // the clock; nil means time.Now
	Look     time.Duration    // interval between two checks of the turn's holder; 0 means 2 s
	Life     time.Duration    // how long a dead machine keeps its turn; 0 means 30 s
	Pause    time.Duration    // first pause before a retry, doubled from then on; 0 means a minute
	Patience time.Duration    // how long to retry, at most until the next turn; 0 means 50 minutes
}

// Run ensures that there is a set for the schedule's last time: it makes one, or waits until another machine has. It retries failures for a while.
func Run(ctx context.Context, o Options) error {
	raw, err := os.ReadFile(o.Settings)
	if err != nil {
		return fail.Wrap(fail.NotFound, err, "read the settings of backups")
	}
	var set Settings
	if err := json.Unmarshal(raw, &set); err != nil {
		return fail.Wrap(fail.Invalid, err, "read the settings of backups").At(o.Settings)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Look, o.Life = cmp.Or(o.Look, 2*time.Second), cmp.Or(o.Life, 30*time.Second)
	o.Pause, o.Patience = cmp.Or(o.Pause, time.Minute), cmp.Or(o.Patience, 50*time.Minute)
	m, err := connect(set.Etcd)
	if err != nil {
		return err
	}
	s, err := schedule.Parse(set.Schedule)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "read the schedule").At(o.Settings)
	}
	r := &run{Options: o, set: set, schedule: s, m: m, turn: s.Last(o.Now())}
	return r.untilMade(ctx)
}

// run is the state of one turn.
type run struct {
	Options
	set      Settings
	schedule schedule.Schedule
	m        *member
	turn     time.Time
	done     Done // the last known set
}

// untilMade retries failures until the next turn comes.
func (r *run) untilMade(ctx context.Context) error {
	until := r.schedule.Next(r.turn)
	if last := r.Now().Add(r.Patience); until.After(last) {
		until = last
	}
	for pause := r.Pause; ; pause *= 2 {
		err := r.await(ctx)
		if e := r.measure(err); e != nil {
			r.Log.Warn("can't write metrics", "error", e)
		}
		if kind := fail.KindOf(err); err == nil || kind == fail.Interrupted || kind == fail.Invalid || r.Now().Add(pause).After(until) {
			return err
		}
		r.Log.Warn("made no backup; trying again", "in", pause, "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// await waits until no other machine is making the set, then makes it, unless another machine has.
func (r *run) await(ctx context.Context) error {
	said := false
	for {
		if made, err := r.made(ctx); err != nil || made {
			return err
		}
		held, t, err := r.m.take(ctx, r.set.Machine, r.Life)
		if err != nil {
			return err
		}
		if t != nil {
			return r.inTurn(ctx, held, t)
		}
		if !said {
			r.Log.Info("another machine is at it; waiting")
			said = true
		}
		select {
		case <-ctx.Done():
			return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "wait for the backup of another machine")
		case <-time.After(r.Look):
		}
	}
}

// made reports whether this turn has a set.
func (r *run) made(ctx context.Context) (bool, error) {
	ok, err := r.m.getJSON(ctx, DoneKey, &r.done)
	if err != nil || !ok || r.done.Turn.Before(r.turn) {
		return false, err
	}
	if r.done.Ahead(r.Now()) {
		return false, nil
	}
	r.Log.Info("the backup of this turn is made", "id", r.done.ID, "by", r.done.Machine)
	return true, nil
}

// inTurn makes the set. held ends when the turn is lost, which cancels the work.
func (r *run) inTurn(ctx, held context.Context, t *turn) error {
	defer t.end(ctx)
	if now := r.schedule.Last(r.Now()); now.After(r.turn) { // the next turn came during the wait: this set belongs to it
		r.turn = now
	}
	if made, err := r.made(held); err != nil || made { // the former holder of the turn has just finished
		return err
	}
	if r.done.Ahead(r.Now()) {
		r.Log.Warn("the last backup says that it was made in the future: another one is made", "id", r.done.ID, "by", r.done.Machine, "at", r.done.At)
	}
	began := r.Now()
	set, err := r.create(held)
	if err != nil && held.Err() != nil && ctx.Err() == nil {
		err = fail.Wrap(fail.Conflict, err, "this machine has lost its turn")
	}
	if err != nil {
		f := Failed{Turn: r.turn, Machine: r.set.Machine, At: r.Now().UTC().Truncate(time.Second), What: err.Error()}
		return errors.Join(err, t.record(context.WithoutCancel(ctx), FailedKey, f))
	}
	r.done = Done{
		Turn: r.turn, ID: set.ID, Machine: r.set.Machine, At: set.CreatedAt, Seconds: r.Now().Sub(began).Round(time.Millisecond).Seconds(),
		Bytes: set.Bytes, Keys: set.Etcd.Keys,
	}
	if err := t.record(held, DoneKey, r.done, FailedKey, UnprunedKey); err != nil {
		return err
	}
	r.Log.Info("made a backup", "id", set.ID, "in", set.Where(), "keys", set.Etcd.Keys, "bytes", set.Bytes)
	if err := r.prune(held, set); err != nil {
		if held.Err() != nil { // stopped, or the turn was lost: the sets are fine
			return err
		}
		r.Log.Warn("can't remove backups that need not stay", "error", err)
		f := Failed{Turn: r.turn, Machine: r.set.Machine, At: r.Now().UTC().Truncate(time.Second), What: err.Error()}
		return t.record(context.WithoutCancel(ctx), UnprunedKey, f)
	}
	return nil
}

// target opens the destination of sets.
func (r *run) target() (backup.Target, error) {
	if r.set.To.S3 != nil {
		return s3.New(*r.set.To.S3), nil
	}
	if r.set.To.Swift != nil {
		return swift.New(*r.set.To.Swift), nil
	}
	dir := r.set.To.Directory
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil { // do not create it: a mount may be missing
		return nil, fail.Wrap(fail.NotFound, err, "find the directory for backups").At(dir).Do("mount it on every control-plane machine, or make it there")
	}
	return backup.Shared{Directory: backup.Directory(dir)}, nil
}

// create makes a set.
func (r *run) create(ctx context.Context) (*backup.Set, error) {
	t, err := r.target()
	if err != nil {
		return nil, err
	}
	order, operator, err := r.order(ctx)
	if err != nil {
		return nil, err
	}
	about := order.About
	about.Reason = Reason
	sign, err := r.signer(order.Sign)
	if err != nil {
		return nil, err
	}
	return backup.Create(ctx, t, backup.Source{About: about, Operator: operator, Snapshot: r.snapshot, Sign: sign, Now: r.Now})
}

// signer returns the signer of this machine's sets, or nil if the operator's store has delegated none.
func (r *run) signer(form *backup.Signature) (*backup.Signer, error) {
	if form == nil || r.set.SigningKey == "" {
		return nil, nil
	}
	key, err := os.ReadFile(r.set.SigningKey)
	if err != nil {
		return nil, fail.Wrap(fail.NotReady, err, "read the key that signs backups").Do("naupegos apply writes it")
	}
	return backup.DelegatedSigner(key, *form)
}

// order reads the operator's record, which may change meanwhile.
func (r *run) order(ctx context.Context) (o Order, operator []byte, err error) {
	const tries = 3
	for range tries {
		o = Order{}
		ok, err := r.m.getJSON(ctx, OrderKey, &o)
		if err != nil {
			return o, nil, err
		}
		if !ok || o.About.Cluster != r.set.Cluster {
			break
		}
		operator = nil
		for _, key := range o.Pieces {
			piece, err := r.m.get(ctx, key)
			if err != nil {
				return o, nil, err
			}
			operator = append(operator, piece...)
		}
		if sum := sha256.Sum256(operator); hex.EncodeToString(sum[:]) == o.SHA256 {
			return o, operator, nil
		}
	}
	return o, nil, fail.New(fail.NotReady, "the operator's record of cluster %s is not in etcd", r.set.Cluster).Do("naupegos apply stores it there")
}

// snapshot counts the keys in etcd and writes its data. The count is a linearizable read, so that the member first catches up with the others.
func (r *run) snapshot(ctx context.Context, w io.Writer) (e backup.Etcd, err error) {
	var tally backup.Tally
	if e.Revision, err = r.m.values(ctx, registry, tally.Add); err != nil {
		return e, err
	}
	tally.Into(&e)
	if e.Version, err = r.m.version(ctx); err != nil {
		return e, err
	}
	e.Member = r.set.Machine
	return e, r.m.snapshot(ctx, w)
}

// prune removes the obsolete sets.
func (r *run) prune(ctx context.Context, made *backup.Set) error {
	if r.set.Keep == (backup.Keep{}) {
		return nil
	}
	t, err := r.target()
	if err != nil {
		return err
	}
	sets, err := backup.List(ctx, t, r.set.Cluster)
	if err != nil {
		return err
	}
	for _, s := range r.set.Keep.Expired(sets, made.ClusterID) {
		r.Log.Info("removing a backup", "id", s.ID)
		if err := s.Remove(ctx); err != nil {
			return err
		}
	}
	return nil
}
