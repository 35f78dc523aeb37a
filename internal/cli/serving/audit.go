package serving

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

func newAuditCmd(h Host) *cobra.Command {
	var q store.AuditQuery
	var since time.Duration
	var out output.Format
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what through the server, and what was refused",
		Long: `List what operators did, newest first: each request to the server that changed something, was refused or failed, and each
command on the server's host that touched tokens, sessions, kubeconfigs, handovers or the store. Repeated refusals
share one entry per minute, with their number. naupegos history shows the steps of what was done to a cluster.

The log is a chain: each entry contains the hash of the previous entry, and a signature. naupegos server audit verify checks it.`,
		Example: "  naupegos server audit\n  naupegos server audit --cluster demo --since 24h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since > 0 {
				q.Since = time.Now().Add(-since)
			}
			all, err := h.audit(cmd.Context(), q)
			if err != nil {
				return err
			}
			return out.Print(h.Out, all, func(w io.Writer) error { return auditTable(w, all) })
		},
	}
	c.Flags().StringVar(&q.Who, "who", "", "only requests of this operator, NAME (ID)")
	c.Flags().StringVar(&q.Cluster, "cluster", "", "only requests about this cluster")
	c.Flags().DurationVar(&since, "since", 0, "only requests newer than this")
	c.Flags().IntVar(&q.Limit, "limit", 100, "maximum number of entries to list")
	out.Bind(c)
	c.AddCommand(newAuditVerifyCmd(h), newAuditKeyCmd(h), newAuditExportCmd(h))
	return c
}

// audit reads from the named server, or else from the store.
func (h Host) audit(ctx context.Context, q store.AuditQuery) (all []store.AuditEntry, err error) {
	c, err := h.Remote()
	if err != nil {
		return nil, err
	}
	if c != nil {
		return c.Audit(ctx, q)
	}
	err = h.withStore(ctx, func(st store.Store) (err error) {
		all, err = st.Audit(ctx, q)
		return err
	})
	return all, err
}

func auditTable(w io.Writer, all []store.AuditEntry) error {
	t := output.NewTable(w)
	t.Head("TIME\tWHO\tFROM\tACTION\tCLUSTER\tOUTCOME\tVIA\tENTRY")
	for _, e := range all {
		action := e.Action
		if e.Count > 0 {
			action += fmt.Sprintf(" (%d requests)", e.Count)
		}
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", e.At.Local().Format(time.DateTime), e.Who, e.From, action, output.Dash(e.Cluster), e.Outcome, output.Dash(e.Via), e.Seq)
	}
	return t.Flush()
}

func newAuditVerifyCmd(h Host) *cobra.Command {
	var file, key, head string
	var out output.Format
	c := &cobra.Command{
		Use:   "verify",
		Short: "Check that no entry of the audit log was changed, added or removed",
		Long: `Verify the audit log: each entry's hash, which covers the previous entry, each signature, and the signed head, which reveals
missing entries at both ends. The command names the first broken entry.

An attacker with the store and its identity can sign a different log. To detect that, compare with data from elsewhere: --head
takes an entry with its hash, as forwarded (naupegos server --audit-to) or printed by an earlier check. --file verifies an
export on another host, with the public key from naupegos server audit key.

Exit status: 0 if the log is intact, 4 if it is not.`,
		Example: "  naupegos server audit verify\n  naupegos server audit verify --head 1042:9f0c…\n  naupegos server audit verify --file audit.jsonl --key audit.pem",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (file == "") != (key == "") {
				return fail.New(fail.Invalid, "--file and --key go together").Do("naupegos server audit export and naupegos server audit key write them")
			}
			known, err := parseHead(head)
			if err != nil {
				return err
			}
			found, err := h.verify(cmd.Context(), file, key, known)
			if err != nil {
				return err
			}
			return out.Print(h.Out, found, func(w io.Writer) error {
				if _, err := fmt.Fprintf(w, "The audit log is whole: entries %d to %d, the last one of %s.\nHead: %d:%s\n", found.First, found.Last, found.At.UTC().Format(time.RFC3339), found.Last, found.Hash); err != nil {
					return err
				}
				if found.Backward > 0 {
					_, err = fmt.Fprintf(w, "Note: between entries the clock went back %d times.\n", found.Backward)
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&file, "file", "", "check this export instead of the store")
	c.Flags().StringVar(&key, "key", "", "file with the public key of --file (PEM)")
	c.Flags().StringVar(&head, "head", "", "entry that the log has to have, ENTRY:HASH")
	out.Bind(c)
	return c
}

// parseHead parses ENTRY:HASH.
func parseHead(text string) (e store.AuditEntry, err error) {
	if text == "" {
		return e, nil
	}
	seq, hash, ok := strings.Cut(text, ":")
	if e.Seq, err = strconv.ParseInt(seq, 10, 64); err != nil || !ok || e.Seq < 1 || len(hash) != 64 {
		return e, fail.New(fail.Invalid, "--head %.100q is not ENTRY:HASH", text).Do("naupegos server audit verify prints one")
	}
	e.Hash = hash
	return e, nil
}

// holds checks that the log contains a known entry.
type holds struct {
	known store.AuditEntry
	seen  bool
}

func (x *holds) entry(e *store.AuditEntry) error {
	if x.known.Seq != e.Seq {
		return nil
	}
	x.seen = true
	if x.known.Hash != e.Hash {
		return fail.New(fail.Refused, "entry %d of the audit log differs from --head", e.Seq).Do("the log was replaced")
	}
	return nil
}

func (x *holds) end(found store.Verified) error {
	switch {
	case x.known.Seq == 0 || x.seen:
		return nil
	case x.known.Seq >= found.First:
		return fail.New(fail.Refused, "entry %d of the audit log is missing: it ends with entry %d", x.known.Seq, found.Last).Do("an older log was put back")
	case !found.PrunedBefore(time.Now()):
		return fail.New(fail.Refused, "entry %d was pruned from the audit log, which begins with entry %d of %s: it can't be compared with --head", x.known.Seq, found.First, found.Began.UTC().Format(time.RFC3339)).
			Do("entries are pruned after two years; compare a younger one, and look for the missing ones where the log is forwarded to")
	}
	return nil
}

// verify checks the log of the store, or an exported file.
func (h Host) verify(ctx context.Context, file, key string, known store.AuditEntry) (found store.Verified, err error) {
	x := &holds{known: known}
	if file != "" {
		if found, err = verifyExport(file, key, x); err == nil {
			err = x.end(found)
		}
		return found, err
	}
	if c, err := h.Remote(); err != nil || c != nil {
		if err == nil {
			err = fail.New(fail.Refused, "the log is checked on the store itself, and a server is named").Do("run it on the server's host without --server and $NAUPEGOS_SERVER, or check an export: --file and --key")
		}
		return found, err
	}
	err = h.withStore(ctx, func(st store.Store) (err error) {
		if found, err = store.VerifyAudit(ctx, st); err != nil || known.Seq == 0 {
			return err
		}
		all, err := st.AuditAfter(ctx, known.Seq-1, 1)
		if err != nil {
			return err
		}
		for i := range all {
			err = errors.Join(err, x.entry(&all[i]))
		}
		return errors.Join(err, x.end(found))
	})
	return found, err
}

// exported is a line of an export, whose first line is the end of the chain, followed by the entries.
type exported struct {
	Head  *store.AuditHead  `json:"head,omitempty"`
	Entry *store.AuditEntry `json:"entry,omitempty"`
}

func verifyExport(file, key string, x *holds) (found store.Verified, err error) {
	public, err := readKey(key)
	if err != nil {
		return found, err
	}
	f, err := os.Open(file)
	if err != nil {
		return found, fail.Wrap(fail.Invalid, err, "read --file")
	}
	defer f.Close()
	lines := json.NewDecoder(bufio.NewReader(f))
	var c *store.AuditCheck
	for n := 1; ; n++ {
		var line exported
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF) && c != nil:
			return c.End()
		case err != nil || (line.Head == nil) != (c != nil) || c != nil && line.Entry == nil:
			return found, fail.New(fail.Invalid, "record %d is not one of an export of the audit log", n).At(file).Do("naupegos server audit export writes one")
		}
		if c == nil && line.Head.Seq == 0 && line.Head.Signature == "" { // an empty log has no signed head
			return found, fail.New(fail.NotFound, "the export has no entries: the audit log was empty when it was made").At(file)
		}
		if c == nil {
			c, err = store.CheckAudit(public, *line.Head)
		} else if err = c.Entry(line.Entry); err == nil {
			err = x.entry(line.Entry)
		}
		if err != nil {
			return found, err
		}
	}
}

func readKey(file string) (ed25519.PublicKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read --key")
	}
	if block, _ := pem.Decode(data); block != nil {
		if any, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
			if key, ok := any.(ed25519.PublicKey); ok {
				return key, nil
			}
		}
	}
	return nil, fail.New(fail.Invalid, "there is no public key of an audit log in the file").At(file).Do("naupegos server audit key prints one")
}

func newAuditKeyCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "key",
		Short:   "Print the public key of the audit log's signatures",
		Long:    "Print the public key (PEM) of the audit log's signatures. Keep it on another host to verify exports there. The\nprivate key is sealed in the store.",
		Example: "  naupegos server audit key > audit.pem",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.withStore(cmd.Context(), func(st store.Store) error {
				key, err := st.AuditKey(cmd.Context())
				if err != nil {
					return err
				}
				der, err := x509.MarshalPKIXPublicKey(key)
				if err != nil {
					return fail.Wrap(fail.Internal, err, "write the key")
				}
				return pem.Encode(h.Out, &pem.Block{Type: "PUBLIC KEY", Bytes: der})
			})
		},
	}
}

func newAuditExportCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "export",
		Short:   "Write the whole audit log with its signatures, a JSON object a line",
		Long:    "Write the audit log to standard output, oldest entry first, for naupegos server audit verify --file on another host. The first\nline is the signed head.",
		Example: "  naupegos server audit export > audit.jsonl",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.withStore(cmd.Context(), func(st store.Store) error {
				w := bufio.NewWriter(h.Out)
				lines := json.NewEncoder(w)
				err := store.EachAudit(cmd.Context(), st, func(head store.AuditHead) error { return lines.Encode(exported{Head: &head}) },
					func(e *store.AuditEntry) error { return lines.Encode(exported{Entry: e}) })
				return errors.Join(err, w.Flush())
			})
		},
	}
}
