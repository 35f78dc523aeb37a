// Command tiers runs the tiers of the tests, says what each came to, and at the end what all of them came to.
//
//	tiers begin -tests D [-slow D] [-latest D] [-began S]    forget what has been kept, and keep how long tests may take
//	tiers run [-budget D] [-v] [-within D] [-makes] NAME COMMAND...
//	                                                         run a tier's command, most often a go test -json, and keep what it came to
//	tiers note NAME SECONDS                                  keep how long something took that was over before this program was there
//	tiers time -need D NAME...                               fail, and keep that tiers were left out, where that much time is not left
//	tiers report [NAME...]                                   say what has been kept: a table, what failed, go test's closing lines; those
//	                                                         named have to be there
//	tiers forget                                             forget what has been kept, but for what $NAUPEGOS_TEST_TREE says
//
// Where it was begun so, the time for tests is over some time. The tests of a tier get $NAUPEGOS_TEST_UNTIL, in seconds since 1970, when its
// own is, which testkit.Timely reads: so long after its start as -within says, and no later than that end.
//
// $NAUPEGOS_TEST_TREE names the tree that is tested, where its run may be resumed: a tier that has passed for this tree is not forgotten, and
// not run again (but with -makes, which is for what only makes things that tiers need).
//
// What is kept lies in .evidence/tiers, one JSON file a tier.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

var kept = filepath.Join(".evidence", "tiers")

func main() {
	if err := tiers(os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, errFailed) { // has been told of
			fmt.Fprintln(os.Stderr, "tiers:", err)
		}
		os.Exit(1)
	}
}

// errFailed says that a tier failed, which has been printed.
var errFailed = errors.New("a tier failed")

func tiers(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("a verb is needed: begin, run, note, time, report or forget")
	}
	switch verb, args := args[0], args[1:]; verb {
	case "begin":
		return begin(args, out)
	case "run":
		return run(args, out)
	case "note":
		if len(args) != 2 {
			return errors.New("usage: tiers note NAME SECONDS")
		}
		seconds, err := strconv.ParseFloat(args[1], 64)
		if err != nil {
			return err
		}
		took := time.Duration(seconds * float64(time.Second))
		return save(kept, &tier{Name: args[0], Began: time.Now().Add(-took), Seconds: seconds})
	case "time":
		return left(args, out)
	case "report":
		all, err := load(kept)
		if err != nil {
			return err
		}
		return report(out, all, args)
	case "forget":
		return forget(kept, os.Getenv(treeEnv))
	default:
		return fmt.Errorf("unknown verb %q; there are begin, run, note, time, report and forget", verb)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("tiers run", flag.ContinueOnError)
	budget := flags.Duration("budget", 0, "how long the tier is meant to take; longer is marked, and no failure")
	within := flags.Duration("within", 0, "what of the tier takes long begins only while it ends within this time; 0: whenever the time for all tiers is over")
	verbose := flags.Bool("v", false, "print all that tests say, not only what failed ones do")
	makes := flags.Bool("makes", false, "it only makes what other tiers need: it is run even where it has passed for this tree, and its time is not that of tests")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errors.New("usage: tiers run [-budget D] [-v] [-within D] [-makes] NAME COMMAND...")
	}
	t := &tier{Name: flags.Arg(0), Began: time.Now(), Budget: budget.Seconds(), Tree: os.Getenv(treeEnv), Makes: *makes}
	if before, err := passed(kept, t.Name, t.Tree); err != nil {
		return err
	} else if before != nil && !*makes {
		fmt.Fprintf(out, "%s has passed for this tree on %s, in %s: it is not run again\n", t.Name, before.Began.Format(time.DateTime), clock(before.Seconds))
		return nil
	}
	reader := &reader{tier: t, out: out, verbose: *verbose}
	until, err := until(t.Began, *within)
	if err != nil {
		return err
	}
	if err := execute(flags.Args()[1:], until, reader); err != nil {
		t.Error = err.Error()
	}
	reader.end()
	t.Seconds = time.Since(t.Began).Seconds()
	if err := save(kept, t); err != nil {
		return err
	}
	return ended(out, t)
}

// execute runs a command whose output the reader reads. Signals are passed on to it: it ends, and says what failed, before this program does.
func execute(argv []string, until time.Time, r *reader) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	if !until.IsZero() {
		cmd.Env = append(os.Environ(), untilEnv+"="+strconv.FormatInt(until.Unix(), 10))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, r, r
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	for {
		select {
		case err := <-over:
			return err
		case s := <-signals:
			if s == os.Interrupt {
				continue // the terminal has sent it to the command as well
			}
			if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
		}
	}
}
