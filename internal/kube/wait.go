package kube

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// follower lists some objects and then watches them, as the typed clients do.
type follower struct {
	list  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	field string // field selector
	label string // label selector
	// vanishes: an object that is not there has ended. waitRollout asks it.
	vanishes bool
}

// retryPause is the pause before a list is requested again after an error that waiting may mend.
const retryPause = 250 * time.Millisecond

// follow keeps the objects by name ("namespace/name" or "name") and calls done after the first list and after each change,
// until done returns true or an error, or ctx ends. A list that fails with an error that waiting may mend is requested again.
// When ctx ends, follow returns fail.NotReady (or Interrupted) wrapping the last such error, if any.
func follow(ctx context.Context, f follower, done func(map[string]runtime.Object) (bool, error)) error {
	for {
		finished, last := f.round(ctx, done)
		if finished {
			return last
		}
		select {
		case <-ctx.Done():
			return answer.Ended(ctx, last)
		case <-time.After(retryPause):
		}
	}
}

// round does one list and the watch after it. It is not finished if either fails with an error that waiting may mend, or if the watch ends.
func (f follower) round(ctx context.Context, done func(map[string]runtime.Object) (bool, error)) (finished bool, err error) {
	list, err := f.list(ctx, metav1.ListOptions{FieldSelector: f.field, LabelSelector: f.label})
	if err != nil {
		e := apiError(ctx, err, "list")
		return !fail.Waitable(e), e
	}
	objects := map[string]runtime.Object{}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		key, err := keyOf(o)
		objects[key] = o
		return err
	})
	if err != nil {
		return true, err
	}
	if ok, err := done(objects); ok || err != nil {
		return true, err
	}
	rv, err := meta.NewAccessor().ResourceVersion(list)
	if err != nil {
		return true, err
	}
	w, err := f.watch(ctx, metav1.ListOptions{FieldSelector: f.field, LabelSelector: f.label, ResourceVersion: rv, AllowWatchBookmarks: true})
	if err != nil {
		e := apiError(ctx, err, "watch")
		return !fail.Waitable(e) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err), e
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case e, ok := <-w.ResultChan():
			if !ok || e.Type == watch.Error {
				return false, nil // ended by the server or the network: list again
			}
			if err := note(objects, e); err != nil {
				return true, err
			}
			if ok, err := done(objects); ok || err != nil {
				return true, err
			}
		}
	}
}

func note(objects map[string]runtime.Object, e watch.Event) error {
	if e.Type == watch.Bookmark {
		return nil
	}
	key, err := keyOf(e.Object)
	if err != nil {
		return err
	}
	if e.Type == watch.Deleted {
		delete(objects, key)
	} else {
		objects[key] = e.Object
	}
	return nil
}

func keyOf(o runtime.Object) (string, error) {
	m, err := meta.Accessor(o)
	if err != nil {
		return "", err
	}
	return manifest.Key(m.GetNamespace(), m.GetName()), nil
}
