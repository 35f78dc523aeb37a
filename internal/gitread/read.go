package gitread

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// history limits the search for an earlier commit to this many commits before the newest one. Older commits do not count as before it.
const history = 10_000

// Head returns the commit at the head of the branch, without fetching it.
func Head(ctx context.Context, s *Source, a Access) (commit string, err error) {
	err = within(ctx, s, a, func(ctx context.Context, b *bench) error {
		commit, err = b.head(ctx)
		return err
	})
	return commit, err
}

// within runs do in the directory of a read.
func within(ctx context.Context, s *Source, a Access, do func(context.Context, *bench) error) error {
	bounded, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	b, err := openBench(bounded, s, a)
	if err != nil {
		return err
	}
	err = do(bounded, b)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = fail.New(fail.Unreachable, "the repository did not answer completely within %s", maxTime).At(s.URL)
	}
	return errors.Join(err, b.close())
}

// git runs git, and fails unless it succeeds.
func (b *bench) git(ctx context.Context, args ...string) ([]byte, error) {
	r, err := b.run(ctx, nil, "git", args...)
	switch {
	case errors.Is(err, errTooMuch):
		return nil, b.tooLarge()
	case err != nil:
		return nil, err
	case r.code != 0:
		return nil, b.explain(r)
	}
	return r.out, nil
}

func (b *bench) head(ctx context.Context) (string, error) {
	branch := "refs/heads/" + b.s.Branch
	out, err := b.git(ctx, "ls-remote", "--symref", "--", b.s.URL, "HEAD", branch, "refs/tags/"+b.s.Branch)
	if err != nil {
		return "", err
	}
	usual, tag := "", false
	for line := range strings.Lines(string(out)) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		switch {
		case name == branch && isID(id):
			return id, nil
		case name == "HEAD" && strings.HasPrefix(id, "ref: refs/heads/"):
			usual = strings.TrimPrefix(id, "ref: refs/heads/")
		case name == "refs/tags/"+b.s.Branch:
			tag = true
		}
	}
	gone := fail.New(fail.NotFound, "the repository has no branch %s", b.s.Branch).At(b.s.URL)
	switch {
	case tag:
		return "", gone.Do("%s is a tag there; branches alone are followed", b.s.Branch)
	case usual != "" && usual != b.s.Branch:
		return "", gone.Do("its default branch is %s: --branch %s", words.Clip(usual, 100), words.Clip(usual, 100))
	}
	return "", gone.Do("push the branch, or name another one with --branch")
}

// isID reports whether a text is the ID of an object.
func isID(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// Found describes the head of the branch.
type Found struct {
	Commit    string
	Signer    string            // who signed the commit; empty: signatures are not wanted
	Committer string            // as the commit says; nothing proves it
	Subject   string            // first line of its message
	Content   []byte            // of the file
	Beside    map[string][]byte // further files, by their paths in the repository
	Refused   error             // why the commit or the file is not to be used; Signer and Content may be missing then
	Descends  bool              // the commit is after, or equal to, since
	Unknown   string            // why that is not known; empty: it is
}

// Read fetches the head of the branch, and returns the file at it. since is an earlier commit; empty: none. The error says that the repository could not be
// read; Found.Refused says why the commit or the file must not be used.
func Read(ctx context.Context, s *Source, a Access, since string) (*Found, error) {
	f := &Found{}
	err := within(ctx, s, a, func(ctx context.Context, b *bench) error { return b.read(ctx, since, f) })
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (b *bench) read(ctx context.Context, since string, f *Found) error {
	head, err := b.head(ctx)
	if err != nil {
		return err
	}
	form := map[int]string{40: "sha1", 64: "sha256"}[len(head)]
	if err := b.init(ctx, form); err != nil {
		return err
	}
	if err := b.fetch(ctx, 1, "--filter=blob:none"); err != nil {
		return err
	}
	out, err := b.in(ctx, "rev-parse", "--verify", fetched+"^{commit}")
	if err != nil {
		return err
	}
	f.Commit = strings.TrimSpace(string(out)) // the branch may have moved since
	raw, err := b.in(ctx, "cat-file", "commit", f.Commit)
	if err != nil {
		return err
	}
	c := parseCommit(raw)
	f.Committer, f.Subject = c.committer, c.subject
	if f.Signer, f.Refused = b.verify(ctx, f.Commit, c); f.Refused != nil {
		return ctx.Err()
	}
	b.contents(ctx, f)
	if errors.Is(f.Refused, errWithheld) {
		if err := b.fetchAgain(ctx, form, f.Commit); err != nil {
			return err
		}
		b.contents(ctx, f)
	}
	if f.Refused != nil {
		if kind := fail.KindOf(f.Refused); kind == fail.Unreachable || kind == fail.NotReady { // the file comes after the rest
			return f.Refused
		}
		return ctx.Err()
	}
	if f.Descends = since == "" || since == f.Commit; !f.Descends {
		b.descends(ctx, since, f)
	}
	return ctx.Err()
}

// contents reads the file, and the files beside it.
func (b *bench) contents(ctx context.Context, f *Found) {
	if f.Content, f.Refused = b.file(ctx, f.Commit); f.Refused == nil && b.beside != nil {
		f.Beside, f.Refused = b.files(ctx, f.Commit, b.beside(f.Content))
	}
	if f.Refused != nil {
		f.Content = nil
	}
}

// errWithheld says that a host left out files at the first fetch and does not send single ones, as by SSH without GIT_PROTOCOL.
var errWithheld = errors.New("the host does not send single files")

// fetchAgain fetches the commit with all its files.
func (b *bench) fetchAgain(ctx context.Context, form, commit string) error {
	if err := os.RemoveAll(filepath.Join(b.dir, repository)); err != nil {
		return fail.Wrap(fail.Internal, err, "remove the fetched objects")
	}
	if err := b.init(ctx, form); err != nil {
		return err
	}
	if err := b.fetch(ctx, 1); err != nil {
		return err
	}
	if _, err := b.in(ctx, "cat-file", "-e", commit+"^{commit}"); err != nil && ctx.Err() == nil {
		return fail.New(fail.NotReady, "the branch moved during the read").At(b.s.URL)
	}
	return ctx.Err()
}

func (b *bench) init(ctx context.Context, form string) error {
	_, err := b.git(ctx, "init", "-q", "--bare", "--template=", "--object-format="+form, repository)
	return err
}

// repository is the name of the directory to which git fetches.
const repository = "repository"

// fetched is the reference of the fetched commit.
const fetched = "refs/read/head"

// in runs git in the repository.
func (b *bench) in(ctx context.Context, args ...string) ([]byte, error) {
	return b.git(ctx, append([]string{"--git-dir=" + repository}, args...)...)
}

// fetch fetches so many commits of the branch. A filter leaves out files, or directories too, where the host supports that: most need none of them.
func (b *bench) fetch(ctx context.Context, depth int, filter ...string) error {
	args := append([]string{"fetch", "-q", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-gc", "--depth=" + strconv.Itoa(depth)}, filter...)
	_, err := b.in(ctx, append(args, "origin", "+refs/heads/"+b.s.Branch+":"+fetched)...)
	return err
}

// descends finds out whether the commit is after since.
func (b *bench) descends(ctx context.Context, since string, f *Found) {
	if err := b.fetch(ctx, history, "--filter=tree:0"); err != nil {
		f.Unknown = "its history can't be fetched: " + err.Error()
		return
	}
	r, err := b.run(ctx, nil, "git", "--git-dir="+repository, "merge-base", "--is-ancestor", since, f.Commit)
	if err != nil {
		f.Unknown = err.Error()
		return
	}
	f.Descends = r.code == 0
}

// file returns the content of the file at a commit.
func (b *bench) file(ctx context.Context, commit string) ([]byte, error) {
	id, err := b.find(ctx, commit)
	if err != nil {
		return nil, err
	}
	out, err := b.in(ctx, "cat-file", "-s", id) // fetches it
	if err != nil {
		return nil, err
	}
	if size, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64); err != nil || size > MaxContent {
		return nil, b.refuse(commit, "the file has %d KiB; %d KiB are allowed", size>>10, MaxContent>>10)
	}
	content, err := b.in(ctx, "cat-file", "blob", id)
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(content, []byte("version https://git-lfs.github.com/spec/")):
		return nil, b.refuse(commit, "the file is a pointer of Git LFS").Do("keep the document in git itself: git lfs untrack %s", b.s.Path)
	case bytes.HasPrefix(content, []byte{0xff, 0xfe}), bytes.HasPrefix(content, []byte{0xfe, 0xff}):
		return nil, b.refuse(commit, "the file is in UTF-16").Do("save it in UTF-8")
	case !utf8.Valid(content):
		return nil, b.refuse(commit, "the file is not in UTF-8").Do("save it in UTF-8; an encrypted file is not read")
	}
	return content, nil
}

// MaxContent is the size limit of a file in bytes: that of a document with the files in it.
const MaxContent = 3 << 20

func (b *bench) refuse(commit, format string, args ...any) *fail.Error {
	return fail.New(fail.Refused, format, args...).At(b.s.At(commit))
}

// find returns the ID of the file at a commit. It follows no links: they may lead out of the repository, and would make another file the one to review.
func (b *bench) find(ctx context.Context, commit string) (string, error) {
	parts := strings.Split(b.s.Path, "/")
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		out, err := b.in(ctx, "ls-tree", "-z", "--full-tree", commit, "--", at)
		if err != nil {
			return "", err
		}
		entry, name, _ := strings.Cut(strings.TrimSuffix(string(out), "\x00"), "\t")
		fields := strings.Fields(entry)
		last := i == len(parts)-1
		switch {
		case name != at || len(fields) != 3:
			return "", fail.New(fail.NotFound, "the branch has no file %s", b.s.Path).At(b.s.At(commit)).
				Do("the cluster stays as it is; to remove it: naupegos destroy; to follow no longer: naupegos server follow remove")
		case fields[0] == "120000":
			return "", b.refuse(commit, "%s is a symbolic link, which is not followed", at).Do("name the path of the file itself with --path")
		case fields[0] == "160000":
			return "", b.refuse(commit, "%s is a submodule, which is not fetched", at).Do("follow the submodule's own repository")
		case last && fields[1] == "tree":
			return "", b.refuse(commit, "%s is a directory", at).Do("name one file with --path")
		case !last && fields[1] != "tree":
			return "", b.refuse(commit, "%s is a file, not a directory", at)
		case last:
			return fields[2], nil
		}
	}
	return "", nil // never: a path has parts
}
