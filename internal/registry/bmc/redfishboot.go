package bmc

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// targets lists boot targets, the best first.
var targets = map[string][]string{FromNetwork: {"Pxe", "UefiHttp"}, FromDisk: {"Hdd"}}

// Modes of Redfish by a machine's firmware.
var modes = map[string]string{"efi": "UEFI", "bios": "Legacy"}

// boot has the machine boot from something once. Controllers differ in where that is written, and whether the mode goes with it: what one refuses
// is tried the other way.
func (r *redfish) boot(ctx context.Context, from string) error {
	target := targets[from][0]
	if offered := r.s.boot.targets; len(offered) > 0 {
		at := slices.IndexFunc(targets[from], func(t string) bool { return slices.Contains(offered, t) })
		if at < 0 {
			return fail.New(fail.Refused, "the BMC can't have its machine boot from the %s: it offers %s", from, strings.Join(offered, ", ")).At(r.a.Address)
		}
		target = targets[from][at]
	}
	places := []string{r.s.path}
	if r.s.settings != "" && r.s.settings != r.s.path {
		places = []string{r.s.settings, r.s.path}
	}
	var first error
	for _, place := range places {
		for _, mode := range r.s.boot.tries(r.a.Firmware) {
			boot := map[string]any{"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": target}
			if mode != "" {
				boot["BootSourceOverrideMode"] = mode
			}
			err := r.patch(ctx, place, map[string]any{"Boot": boot})
			if err == nil {
				return nil
			}
			if first == nil {
				first = err
			}
			if !slices.Contains([]int{http.StatusBadRequest, http.StatusUnprocessableEntity}, statusOf(err)) {
				break // the refusal has another reason than the body
			}
		}
		if code := statusOf(first); code == 0 || code == http.StatusUnauthorized || code == http.StatusForbidden || ctx.Err() != nil {
			break
		}
	}
	return r.a.refused(first, "have the machine boot from the "+from)
}

// tries lists boot modes to send, the best first; "" sends none. Some controllers fall back to a default if a request has no mode, others refuse
// any mode. The first is the mode of the machine's firmware; the last serves controllers that accept only the other mode.
func (b redfishBoot) tries(firmware string) []string {
	mode := modes[firmware]
	if mode == "" {
		mode = b.mode
	}
	if mode == "" {
		mode = "UEFI"
	}
	other := "Legacy"
	if mode == other {
		other = "UEFI"
	}
	out := []string{mode, "", other}
	if b.mode == "" && modes[firmware] == "" || b.mode == "" && len(b.modes) == 0 { // the resource has no mode
		out = []string{"", mode, other}
	}
	return slices.DeleteFunc(out, func(m string) bool { return m != "" && len(b.modes) > 0 && !slices.Contains(b.modes, m) })
}

// patch changes a resource. Where the resource has changed since it was read, patch reads it again; where a controller accepts no tag as it gave it,
// patch sends the tag in other forms, then any, then none.
func (r *redfish) patch(ctx context.Context, place string, body any) error {
	var tried []string
	var refused error
	for range 3 {
		resp, err := r.c.get(ctx, place, "@odata.etag")
		if err != nil && (statusOf(err) == 0 || place == r.s.path) {
			return err
		}
		now := &redfishSystem{}
		if err == nil { // some controllers have settings that can be written and not read
			now.etags = resp.etags()
		}
		if refused != nil && slices.Equal(tried, now.etags) {
			break // no other client changes it
		}
		tried, refused = now.etags, nil
		for _, tag := range now.tags() {
			resp, err := r.c.send(ctx, http.MethodPatch, place, tag, body)
			if err == nil {
				return r.c.follow(ctx, resp)
			}
			if refused == nil || !unmatched(err) {
				refused = err
			}
			if !unmatched(err) {
				return refused
			}
		}
	}
	return refused
}

// unmatched reports whether a controller wants another If-Match.
func unmatched(err error) bool {
	code := statusOf(err)
	return code == http.StatusPreconditionFailed || code == http.StatusPreconditionRequired
}

// tags lists values of If-Match, the best first: the tags as the controller sent them; as strong tags, because If-Match compares strongly (RFC 9110);
// with quotes; without a suffix that a proxy adds for compression; "*"; none. For a resource without tags, none comes first.
func (s *redfishSystem) tags() (out []string) {
	if len(s.etags) == 0 {
		return []string{"", "*"}
	}
	add := func(tag string) {
		if !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	for _, t := range s.etags {
		add(t)
	}
	for _, t := range s.etags {
		bare := strings.Trim(strings.TrimPrefix(t, "W/"), `"`)
		add(`"` + bare + `"`)
		if plain := strings.TrimSuffix(strings.TrimSuffix(bare, "-gzip"), ";gzip"); plain != bare {
			add(`"` + plain + `"`)
		}
		add(bare)
	}
	add("*")
	add("")
	return out
}
