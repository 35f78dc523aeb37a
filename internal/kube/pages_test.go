package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestPages: a list is complete however many pages it has, and an endless one is refused.
func TestPages(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	for name, c := range map[string]struct {
		total, expires int // after so many objects; 0: never
		want           int
		kind           fail.Kind
	}{
		"none": {}, "one page": {total: 7, want: 7}, "three pages": {total: 1001, want: 1001}, "whole pages": {total: 1000, want: 1000},
		"expired in between": {total: 1200, expires: 500, want: 1200}, "without an end": {total: 1 << 30, kind: fail.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pages(t.Context(), metav1.ListOptions{}, func(_ context.Context, o metav1.ListOptions) ([]int, string, error) {
				from, to := 0, c.total
				if o.Continue != "" {
					if _, err := fmt.Sscan(o.Continue, &from); err != nil {
						return nil, "", err
					}
				}
				if c.expires > 0 && from >= c.expires {
					return nil, "", expired
				}
				if o.Limit > 0 {
					to = min(c.total, from+int(o.Limit))
				}
				next := ""
				if to < c.total {
					next = fmt.Sprint(to)
				}
				return make([]int, to-from), next, nil
			})
			if len(got) != c.want || fail.KindOf(err) != c.kind {
				t.Errorf("%d objects, %v", len(got), err)
			}
		})
	}
	broken := errors.New("broken")
	_, err := pages(t.Context(), metav1.ListOptions{}, func(context.Context, metav1.ListOptions) ([]int, string, error) { return nil, "", broken })
	if !errors.Is(err, broken) {
		t.Errorf("an error of a page is %v", err)
	}
}
