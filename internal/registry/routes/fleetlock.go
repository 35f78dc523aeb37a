package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/naupegos/naupegos/internal/fail"
)

// fleetRequest is the body of FleetLock, the protocol of Zincati and others.
type fleetRequest struct {
	Client struct {
		ID    string `json:"id"`
		Group string `json:"group"`
	} `json:"client_params"`
}

// fleetError is an error as the protocol has it.
func fleetError(w http.ResponseWriter, status int, kind, value string) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"kind": kind, "value": value}) // whoever asked has gone away
	return nil
}

// preReboot: POST /v1/pre-reboot: whoever asks may reboot, and has the place from then on.
func (h routes) preReboot(w http.ResponseWriter, r *http.Request) error {
	return h.fleet(w, r, func(ctx context.Context, in fleetRequest) error {
		granted, who, err := h.Registry.Lock(ctx, in.Client.Group, in.Client.ID)
		if err == nil && !granted {
			names := make([]string, 0, len(who))
			for _, s := range who {
				names = append(names, s.Detail)
			}
			return fail.New(fail.Conflict, "the places of the group are held by %v", names)
		}
		return err
	})
}

// steadyState: POST /v1/steady-state: whoever asks is back, and gives its place back if it has one.
func (h routes) steadyState(w http.ResponseWriter, r *http.Request) error {
	return h.fleet(w, r, func(ctx context.Context, in fleetRequest) error {
		_, err := h.Registry.Unlock(ctx, in.Client.Group, in.Client.ID)
		return err
	})
}

// fleet is what both have in common.
func (h routes) fleet(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, in fleetRequest) error) error {
	if r.Header.Get("fleet-lock-protocol") != "true" {
		return fleetError(w, http.StatusBadRequest, "missing_header", "the header fleet-lock-protocol: true is missing")
	}
	data, err := body(r)
	if err != nil {
		return err
	}
	var in fleetRequest
	if err := json.Unmarshal(data, &in); err != nil || in.Client.ID == "" || in.Client.Group == "" {
		return fleetError(w, http.StatusBadRequest, "invalid_request", "the body is not {client_params: {id, group}}")
	}
	if err = h.fleetClient(r, in.Client.ID); err == nil {
		err = do(r.Context(), in)
	}
	switch fail.KindOf(err) {
	case fail.Invalid:
		return fleetError(w, http.StatusBadRequest, "invalid_client_params", err.Error())
	case fail.Conflict:
		return fleetError(w, http.StatusConflict, "failed_lock", err.Error())
	case fail.Unauthorized:
		return fleetError(w, http.StatusUnauthorized, "unauthorized", err.Error())
	}
	if err != nil {
		h.Log.Error("a lock could not be decided about", "error", err.Error())
		return fleetError(w, http.StatusInternalServerError, "internal", fmt.Sprint(err))
	}
	return say(w, http.StatusOK, "")
}

// fleetClient: whoever gives the UUID of a machine that has a key needs the key.
func (h routes) fleetClient(r *http.Request, id string) error {
	m, byLabel, err := h.Registry.HolderOf(r.Context(), id)
	if err != nil || m == nil || byLabel {
		return err
	}
	return h.mayActFor(r, m)
}
