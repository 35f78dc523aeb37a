package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/interrupt"
	"github.com/naupegos/naupegos/internal/plan"
)

// noticeAfter is how long a command may end after a signal before it says that it does.
const noticeAfter = time.Second

// Run runs a command tree until it ends. SIGINT and SIGTERM end the context of its commands; unless a command succeeds all the same, it then fails with
// one sentence of kind fail.Interrupted. A second signal calls atOnce with such a sentence; atOnce ends the process. notices receives a line if a
// command takes longer to end.
func Run(ctx context.Context, root *cobra.Command, args []string, notices io.Writer, atOnce func(*cobra.Command, error)) (*cobra.Command, error) {
	if verb, err := root, Misspelt(root, args); err != nil {
		return verb, err
	}
	ctx, signals, stop := interrupt.Listen(ctx, func() {
		verb, _, err := root.Find(args)
		if err != nil {
			verb = root
		}
		atOnce(verb, fail.New(fail.Interrupted, "%s was ended at once, by a second signal: what it was doing may be unfinished", Path(verb)).Do("run it again"))
	})
	defer stop()
	if !forPrograms(args) {
		over := context.AfterFunc(ctx, func() {
			time.AfterFunc(noticeAfter, func() { fmt.Fprintln(notices, "Stopping; a second signal ends the command at once.") })
		})
		defer over()
	}
	verb, err := root.ExecuteContextC(ctx)
	if signals.Came() {
		err = interrupted(verb, err, ctx.Err() != nil, signals.Taken())
	}
	return verb, err
}

// forPrograms reports whether arguments ask for JSON, also as progress: then standard error has nothing but JSON.
func forPrograms(args []string) bool {
	return AsksJSON(args) || slices.Contains(args, "--progress=json") || strings.Contains(strings.Join(args, " ")+" ", "--progress json ")
}

// interrupted returns the error of a command during which a signal came: its own sentence about that, an error that has another cause, or a sentence
// made here. ended says that its context ended; ran, that it carried out a plan.
func interrupted(verb *cobra.Command, err error, ended, ran bool) error {
	var run *plan.RunError
	var said *fail.Error
	switch kind := fail.KindOf(err); {
	case err == nil, errors.As(err, &run), errors.As(err, &said) && said.Kind == fail.Interrupted && said.Err == nil:
		return err
	case kind == fail.Interrupted, errors.Is(err, context.Canceled):
	case ended && (kind == fail.Internal || kind == fail.Unreachable || kind == fail.NotReady): // what it waited for was cut off
	default:
		return err
	}
	is := effectOf(Path(verb), ran)
	if said != nil && said.Kind == fail.Interrupted {
		is.resume = cmp.Or(said.Hint, is.resume)
	}
	return fail.New(fail.Interrupted, "%s was interrupted: %s", Path(verb), is.changed).Do("%s", is.resume)
}

// effect is what an interrupted command left, and how to continue.
type effect struct{ changed, resume string }

// effects are those of commands that may have changed something, or that have more to say. All others changed nothing.
var effects = map[string]effect{
	"bundle build":           {"the bundle is not in the library; finished parts of it are kept", "run it again: it continues with them"},
	"bundle pull":            {"the bundle is not in the library; finished files are kept", "run it again: it continues with the next file"},
	"bundle export":          {"the archive was not written", "run it again"},
	"image build":            {"the image was not written", "run it again"},
	"image system":           {"the image was not written", "run it again"},
	"image discovery":        {"the image was not made", "run it again"},
	"image upload":           {"the image is not usable in the cloud yet", "run it again"},
	"handover":               {"nothing was changed, but the directory may lack files", "run it again"},
	"ssh-config":             {"nothing was changed, but the directory may lack files", "run it again"},
	"server backup":          {"the backup was not written", "run it again"},
	"store backup":           {"the backup was not written", "run it again"},
	"server import-matchbox": {"some of the files may be copied already", "run it again: it leaves them alone"},
	"login":                  {"you are not signed in", "run it again"},
	"logout":                 {"you may still be signed in", "run it again"},
	"ssh":                    {"a command on the machine may go on", "naupegos ssh logs in again"},
}

// unsure are commands that make one change in a store or on a server: whether it was made just before the signal is not known.
var unsure = map[string]string{ //nolint:gosec // commands
	"server token create": "server token list", "server token revoke": "server token list",
	"server credential add": "server credential list", "server credential remove": "server credential list", "server session end": "server session list",
	"machine approve": "machine list", "machine assign": "machine show", "machine bmc": "machine show", "machine forget": "machine list", "machine install": "machine show",
	"machine label": "machine show", "machine lock-token create": "machine lock-token list", "machine lock-token revoke": "machine lock-token list",
	"machine maintenance": "machine show", "machine name": "machine list", "machine power": "machine show", "machine reboot": "machine show", "machine reinstall": "machine show",
	"machine reject": "machine list", "machine schedule": "machine schedule", "machine strategy": "machine strategy", "machine unassign": "machine show", "machine unlock": "machine locks",
	"store move": "store", "store protect": "store", "store restore": "store", "store rotate": "store", "server restore": "store",
}

func effectOf(path string, ran bool) effect {
	if ran {
		return effect{"what its finished steps did stays", "run it again to continue; naupegos history shows the steps"}
	}
	if is, ok := effects[path]; ok {
		return is
	}
	if look, ok := unsure[path]; ok {
		return effect{"it either was done in full or changed nothing", "naupegos " + look + " shows which; or run it again"}
	}
	return effect{"nothing was changed", "run it again"}
}
