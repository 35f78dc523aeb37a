package kube

import (
	"context"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
)

// apiError gives an error of client-go a kind and says what was attempted.
func apiError(ctx context.Context, err error, format string, args ...any) *fail.Error {
	return answer.Error(ctx, err, format, args...)
}

// poll is answer.Poll.
func poll(ctx context.Context, every time.Duration, ask func(ctx context.Context) error) error {
	return answer.Poll(ctx, every, ask)
}
