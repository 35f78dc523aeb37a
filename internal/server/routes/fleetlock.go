package routes

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/server/routes/client"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// fleetRequest is the body of FleetLock, the protocol of Zincati and others.
type fleetRequest struct {
	Client struct {
		ID    string `json:"id"`
		Group string `json:"group"`
	} `json:"client_params"`
}

// fleetError answers with an error in the protocol's form.
func fleetError(w http.ResponseWriter, status int, kind, value string) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"kind": kind, "value": value}) // an error means that the client has left
	return nil
}

// caller is the client: a machine with its certificate, or a client with a group's token.
type caller struct {
	public any // key of the certificate; nil: no certificate
	token  *metal.LockToken
}

// preReboot: POST /v1/pre-reboot: the caller may reboot, and holds the place from then on.
func (h routes) preReboot(w http.ResponseWriter, r *http.Request) error {
	return h.fleet(w, r, func(ctx context.Context, c caller, group, id string) (err error) {
		var granted bool
		var who []metal.Slot
		if c.token != nil {
			granted, who, err = h.Registry.Groups().LockBy(ctx, c.token, id)
		} else {
			granted, who, err = h.Registry.Groups().Lock(ctx, group, id)
		}
		if err == nil && !granted {
			names := make([]string, 0, len(who))
			for _, s := range who {
				names = append(names, words.Clip(s.Detail, peer.Long))
			}
			return fail.New(fail.Conflict, "the places of the group are held by %v", names)
		}
		return err
	})
}

// steadyState: POST /v1/steady-state: the caller is back, and returns its own place if it holds one.
func (h routes) steadyState(w http.ResponseWriter, r *http.Request) error {
	return h.fleet(w, r, func(ctx context.Context, c caller, group, id string) (err error) {
		if c.token != nil {
			_, err = h.Registry.Groups().UnlockBy(ctx, c.token, id)
		} else {
			_, err = h.Registry.Groups().Unlock(ctx, group, id)
		}
		return err
	})
}

// fleet is the common part of both. Callers are authenticated before their body is read.
func (h routes) fleet(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, c caller, group, id string) error) error {
	if r.Header.Get("fleet-lock-protocol") != "true" {
		return fleetError(w, http.StatusBadRequest, "missing_header", "the header fleet-lock-protocol: true is missing")
	}
	c, err := h.caller(r)
	if err != nil {
		return h.fleetFailed(w, r, err)
	}
	data, err := body(r)
	if err != nil {
		return err
	}
	var in fleetRequest
	if err := json.Unmarshal(data, &in); err != nil || in.Client.ID == "" || in.Client.Group == "" {
		return fleetError(w, http.StatusBadRequest, "invalid_request", "the body is not {client_params: {id, group}}")
	}
	id := in.Client.ID
	if !printable(id) || !printable(in.Client.Group) { // operators type the names that machine locks shows
		return fleetError(w, http.StatusBadRequest, "invalid_client_params", "id and group need to be text of at most 256 bytes that can be printed, without blanks")
	}
	if c.token == nil {
		id, err = h.proven(r.Context(), c, id)
	} else if c.token.Group != in.Client.Group {
		err = fail.New(fail.Refused, "the token is of another group")
	}
	if err == nil {
		err = do(r.Context(), c, in.Client.Group, id)
	}
	if err != nil {
		return h.fleetFailed(w, r, err)
	}
	return say(w, http.StatusOK, "")
}

// printable reports whether a name is shown unchanged, so that it can be typed.
func printable(name string) bool {
	return len(name) <= 256 && utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) })
}

// fleetFailed answers with an error in the protocol's form.
func (h routes) fleetFailed(w http.ResponseWriter, r *http.Request, err error) error {
	switch fail.KindOf(err) {
	case fail.Invalid:
		return fleetError(w, http.StatusBadRequest, "invalid_client_params", err.Error())
	case fail.Conflict:
		return fleetError(w, http.StatusConflict, "failed_lock", err.Error())
	case fail.Unauthorized:
		h.strangers.Warn(r.Context(), "a client may not reboot in turn", r.RemoteAddr, slog.String("reason", err.Error()))
		return fleetError(w, http.StatusUnauthorized, "unauthorized", err.Error())
	case fail.Refused:
		h.strangers.Warn(r.Context(), "a client may not reboot in turn", r.RemoteAddr, slog.String("reason", err.Error()))
		return fleetError(w, http.StatusForbidden, "forbidden", err.Error())
	}
	h.Log.Error("a lock could not be decided about", "error", err.Error())
	return fleetError(w, http.StatusInternalServerError, "internal", err.Error())
}

// caller authenticates the client, or returns fail.Unauthorized. Zincati has the token in the user information of its base URL, which it sends by basic
// authentication.
func (h routes) caller(r *http.Request) (c caller, err error) {
	secret := ""
	if _, password, ok := r.BasicAuth(); ok {
		secret = password
	} else if scheme, text, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		secret = strings.TrimSpace(text)
	}
	switch {
	case secret != "":
		c.token, err = h.Registry.Groups().Token(r.Context(), secret)
		return c, err
	case r.TLS != nil && len(r.TLS.VerifiedChains) > 0:
		c.public = r.TLS.PeerCertificates[0].PublicKey
		return c, nil
	}
	return c, fail.New(fail.Unauthorized, "this needs the machine's certificate, over HTTPS, or a token of the group").
		Do("naupegos machine lock-token create GROUP makes a token; Zincati has it in its base URL: http://group:TOKEN@SERVER:8080/")
}

// proven returns the UUID of the machine that an ID names, if the caller has shown the machine's key.
func (h routes) proven(ctx context.Context, c caller, id string) (string, error) {
	m, _, err := h.Registry.Groups().HolderOf(ctx, id)
	if err != nil {
		return "", err
	}
	if m == nil {
		return "", fail.New(fail.Unauthorized, "no machine has this ID").At(words.Clip(id, peer.Long))
	}
	return m.UUID, h.Registry.Knows(m, c.public)
}

// lockTokens: GET /api/v1/lock-tokens.
func (h routes) lockTokens(w http.ResponseWriter, r *http.Request) error {
	all, err := h.Registry.Groups().Tokens(r.Context())
	if err != nil {
		return err
	}
	return write(w, client.LockTokens{Items: append([]metal.LockToken{}, all...)})
}

// newLockToken: POST /api/v1/lock-tokens.
func (h routes) newLockToken(w http.ResponseWriter, r *http.Request) error {
	var in client.NewLockToken
	if err := decode(r, &in); err != nil {
		return err
	}
	secret, t, err := h.Registry.Groups().NewToken(r.Context(), in.Group, time.Duration(in.Seconds)*time.Second)
	if err != nil {
		return err
	}
	h.Log.Info("a token of a group of reboots was made", "id", t.ID, "group", t.Group, "by", h.who(r))
	return write(w, client.MadeLockToken{LockToken: t, Token: secret})
}

// dropLockToken: DELETE /api/v1/lock-tokens/<id>.
func (h routes) dropLockToken(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := h.Registry.Groups().DropToken(r.Context(), id); err != nil {
		return err
	}
	h.Log.Info("a token of a group of reboots was revoked", "id", id, "by", h.who(r))
	w.WriteHeader(http.StatusNoContent)
	return nil
}
