package notify

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// announce starts a delivery to each receiver that does not know how things are. If a receiver can't be sent a message now, a later round sends it how
// things are then.
func (w *Notifier) announce(ctx context.Context, all []need) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, r := range w.receivers {
		if r.busy {
			continue
		}
		messages, news := r.news(all)
		if len(messages) == 0 {
			if r.learn(news) || r.unsaved { // something ended that has no message
				w.save(ctx, r)
			}
			continue
		}
		r.sent = slices.DeleteFunc(r.sent, func(at time.Time) bool { return now.Sub(at) > time.Minute })
		if now.Before(r.not) || len(r.sent) >= perMinute {
			continue
		}
		r.busy, r.sent = true, append(r.sent, now)
		m := message(messages, now.UTC().Truncate(time.Second), w.c.Pages)
		w.sending.Go(func() { w.deliver(ctx, r, m, news) })
	}
}

// news returns the messages for a receiver, and the states that it knows afterwards.
func (r *receiver) news(all []need) (messages []Message, news map[string]announced) {
	news = map[string]announced{}
	for i := range all {
		n := &all[i]
		if n.state != "" && !r.wants(n) { // an announced need ends for the receiver, whichever event it has now
			continue
		}
		m, same := n.change(r.Announced[n.key])
		if same {
			continue
		}
		news[n.key] = announced{n.state, n.level}
		if n.state != "" || !n.calm {
			m.Summary, m.Hint = line(m.Summary), line(m.Hint)
			messages = append(messages, m)
		}
	}
	return messages, news
}

// learn notes the states that a receiver knows, and reports whether any changed.
func (r *receiver) learn(news map[string]announced) bool {
	for key, is := range news {
		if is.State == "" {
			delete(r.Announced, key)
		} else {
			r.Announced[key] = is
		}
	}
	return len(news) > 0
}

// save stores the announced states of a receiver, unless the webhook was removed or replaced meanwhile. If that fails, the next round tries again.
func (w *Notifier) save(ctx context.Context, r *receiver) {
	if w.receivers[r.Name] != r {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := w.hooks.keep(bounded, r.Name, &r.record)
	if r.unsaved = err != nil; r.unsaved {
		w.complainLocked("a webhook's announcements could not be recorded; after a restart, it may get them again", "webhook", r.Name, "error", err.Error())
	}
}

// deliver sends a message, in several attempts if need be, and records the outcome.
func (w *Notifier) deliver(ctx context.Context, r *receiver, m *Message, news map[string]announced) {
	pause := w.c.Backoff
	var after time.Duration
	var err error
	for i := range attempts {
		if i > 0 && !w.wait(ctx, max(pause, after)) {
			break
		}
		// A request that has begun is finished, so that it is known whether the receiver has the message.
		if _, after, err = w.try(context.WithoutCancel(ctx), r, m); err == nil {
			break
		}
		w.c.Counted(r.Name, "failed")
		if fail.KindOf(err) != fail.Unreachable || after > firstPause {
			break
		}
		pause *= 4
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.busy = false
	if ctx.Err() != nil && fail.KindOf(err) == fail.Unreachable { // the next server announces it
		return
	}
	w.settle(r, news, after, err)
	w.save(ctx, r)
}

// try sends a message once. A panic counts as a refusal: the server keeps running.
func (w *Notifier) try(ctx context.Context, r *receiver, m *Message) (said string, after time.Duration, err error) {
	defer func() {
		if why := recover(); why != nil {
			w.c.Log.Error("a message to a webhook panicked", "webhook", r.Name, "panic", why, "stack", string(debug.Stack()))
			err = fail.New(fail.Internal, "this is a defect of naupegos; the server's log has details")
		}
	}()
	return r.post(ctx, m)
}

// wait reports whether the pause is over before ctx ends.
func (w *Notifier) wait(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// settle notes the outcome of a delivery. A message that the receiver refuses is dropped, and so are messages that could not be delivered for a day.
func (w *Notifier) settle(r *receiver, news map[string]announced, after time.Duration, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	if err == nil {
		if !r.Failing.IsZero() {
			w.c.Log.Info("a webhook takes messages again", "webhook", r.Name, "host", r.Host)
		}
		r.Sent, r.Failing, r.pause = now, time.Time{}, 0
		r.learn(news)
		w.c.Counted(r.Name, "sent")
		return
	}
	if r.Failing.IsZero() {
		r.Failing = now
	}
	r.Failed, r.Failure = now, placeless(err)
	r.pause = min(max(2*r.pause, firstPause), mostPause)
	r.not = time.Now().Add(max(r.pause, after))
	if fail.KindOf(err) != fail.Unreachable || now.Sub(r.Failing) > giveUp {
		r.learn(news)
		w.c.Counted(r.Name, "dropped")
	}
	w.complainLocked("a webhook's message was not delivered", "webhook", r.Name, "host", r.Host, "error", r.Failure)
}

// placeless returns an error without its place, which lists show already.
func placeless(err error) string {
	var e *fail.Error
	if errors.As(err, &e) {
		bare := *e
		bare.Where = ""
		return line(bare.Error())
	}
	return line(err.Error())
}
