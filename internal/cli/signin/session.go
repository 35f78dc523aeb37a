package signin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/cli/wholefile"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/issuer"
)

// session is the stored session of one sign-in.
type session struct {
	Server  string        `json:"server,omitempty"` // empty: a cluster's issuer
	SignIn  issuer.SignIn `json:"signIn"`
	IDToken string        `json:"idToken"`
	Refresh string        `json:"refreshToken,omitempty"`
	Expires time.Time     `json:"expires"`
}

// early is how long before its end an ID token is renewed.
const early = 30 * time.Second

// file returns the path of the file for the session with a server.
func file(dir, server string) string {
	sum := sha256.Sum256([]byte(strings.TrimRight(server, "/")))
	return filepath.Join(dir, "signed-in", hex.EncodeToString(sum[:8])+".json")
}

// take verifies the provider's tokens, and puts them into the session.
func (s *session) take(ctx context.Context, p *oidc.Provider, got *oauth2.Token) (*oidc.IDToken, error) {
	raw, _ := got.Extra("id_token").(string)
	if raw == "" {
		return nil, fail.New(fail.Unauthorized, "the provider gave no ID token").Do("the server's --oidc-scope has to have openid")
	}
	token, err := p.Verifier(&oidc.Config{ClientID: s.SignIn.ClientID}).Verify(ctx, raw)
	if err != nil {
		return nil, fail.Wrap(fail.Unauthorized, err, "check the ID token")
	}
	s.IDToken, s.Expires = raw, token.Expiry
	if got.RefreshToken != "" {
		s.Refresh = got.RefreshToken
	}
	return token, nil
}

func (s *session) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail.Wrap(fail.Refused, err, "keep the sign-in")
	}
	data, err := json.Marshal(s) //nolint:gosec // the file is its owner's alone
	if err != nil {
		return fail.Wrap(fail.Internal, err, "keep the sign-in")
	}
	return wholefile.Replace(path, data, 0o600)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail.Wrap(fail.Refused, err, "forget the sign-in")
	}
	return nil
}

// read reads a session. It returns nil if there is none.
func read(path string) (*session, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, fail.New(fail.Refused, "the sign-in can be read by others (mode %04o)", info.Mode().Perm()).At(path).Do("chmod 600 %s, or naupegos logout and login", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the sign-in")
	}
	s := new(session)
	if json.Unmarshal(data, s) != nil { // the cause may contain a part of it
		return nil, fail.New(fail.Invalid, "the sign-in is damaged").At(path).Do("naupegos login makes it again")
	}
	return s, nil
}

// Token returns the ID token for a server, renewed if it is about to end; "" if the user has not signed in there.
func Token(ctx context.Context, dir, server string) (string, error) {
	s, err := current(ctx, file(dir, server), nil)
	return s.token(), err
}

// current returns the session of a file, renewed if it is about to end. If that is impossible, or the file has no session, current calls again for
// another session and writes it to the file. Without again, it returns nil.
func current(ctx context.Context, path string, again func() (*session, error)) (*session, error) {
	s, err := read(path)
	if err != nil || s == nil && again == nil || s.fresh() {
		return s, err
	}
	// A refresh token often works only once, so concurrent commands must not use the same one.
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "renew the sign-in")
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "renew the sign-in")
	}
	defer lock.Close()
	if err := locked(ctx, lock); err != nil {
		return nil, err
	}
	if s, err = read(path); err != nil || s.fresh() {
		return s, err
	}
	if s != nil {
		err = s.renew(ctx, path)
	}
	if again == nil || s != nil && fail.KindOf(err) != fail.Unauthorized {
		return s.unless(err)
	}
	if s, err = again(); err != nil {
		return nil, err
	}
	return s, s.write(path)
}

// fresh reports whether the ID token is good for a while.
func (s *session) fresh() bool { return s != nil && time.Until(s.Expires) > early }

func (s *session) unless(err error) (*session, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *session) token() string {
	if s == nil {
		return ""
	}
	return s.IDToken
}

// renew gets a new ID token with the refresh token.
func (s *session) renew(ctx context.Context, path string) error {
	over := fail.New(fail.Unauthorized, "the sign-in is over").At(s.Server).Do("naupegos login --server %s", s.Server)
	if s.Server == "" {
		over = fail.New(fail.Unauthorized, "the sign-in is over").At(s.SignIn.Issuer).Do("naupegos login CLUSTER")
	}
	if s.Refresh == "" {
		return over
	}
	ctx, p, err := provider(ctx, s.SignIn)
	if err != nil {
		return err
	}
	o := oauth2.Config{ClientID: s.SignIn.ClientID, Endpoint: p.Endpoint(), Scopes: s.SignIn.Scopes}
	got, err := o.TokenSource(ctx, &oauth2.Token{RefreshToken: s.Refresh}).Token()
	if answered := (*oauth2.RetrieveError)(nil); errors.As(err, &answered) && answered.Response.StatusCode < 500 {
		return over
	}
	if err != nil {
		return refused(err)
	}
	if _, err := s.take(ctx, p, got); err != nil {
		return err
	}
	return s.write(path)
}

// refused returns the error of the provider's token endpoint, without the data that was sent there.
func refused(err error) error {
	if answered := (*oauth2.RetrieveError)(nil); errors.As(err, &answered) {
		return fail.New(fail.Unauthorized, "the provider gives no token: status %d, %.100q %.300q", answered.Response.StatusCode, answered.ErrorCode, answered.ErrorDescription)
	}
	return fail.Wrap(fail.Unreachable, err, "ask the provider for a token")
}

// locked waits for the lock by polling: flock(2) can't have a deadline without signals.
func locked(ctx context.Context, f *os.File) error {
	for tick := time.Tick(50 * time.Millisecond); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fail.Wrap(fail.Refused, err, "renew the sign-in")
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return fail.Wrap(fail.NotReady, ctx.Err(), "wait for another naupegos that renews the sign-in")
		}
	}
}
