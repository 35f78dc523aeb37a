package gitread

import (
	"bytes"
	"context"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Limits of the files beside the one that is followed.
const (
	maxFiles = 2000
	maxBytes = 20 << 20 // of all together
)

// entry is a file of a commit.
type entry struct{ id, name string }

// files returns the files at paths, and all files below directories at paths.
func (b *bench) files(ctx context.Context, commit string, paths []string) (map[string][]byte, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	entries, err := b.entries(ctx, commit, paths)
	if err != nil {
		return nil, err
	}
	var ids strings.Builder
	for _, e := range entries {
		ids.WriteString(e.id + "\n")
	}
	// All at once: git would fetch missing files one after another. Where that is not possible, it does.
	_, err = b.run(ctx, strings.NewReader(ids.String()), "git", "--git-dir="+repository, "-c", "fetch.negotiationAlgorithm=noop", "fetch", "-q", "--no-tags", "--no-write-fetch-head",
		"--no-recurse-submodules", "--no-auto-gc", "--filter=blob:none", "--stdin", "origin")
	if err != nil {
		return nil, err
	}
	r, err := b.run(ctx, strings.NewReader(ids.String()), "git", "--git-dir="+repository, "cat-file", "--batch")
	switch {
	case err != nil && ctx.Err() == nil: // there was too much output
		return nil, b.refuse(commit, "the files that it names have more than %d MiB", maxBytes>>20)
	case err != nil:
		return nil, err
	case r.code != 0:
		return nil, b.explain(r)
	}
	return b.split(commit, entries, r.out)
}

// entries lists files. Paths that lead out of the repository or through links have none.
func (b *bench) entries(ctx context.Context, commit string, paths []string) (all []entry, err error) {
	for _, p := range paths {
		if !fs.ValidPath(p) || p == "." {
			return nil, b.refuse(commit, "it names %.100q, which is not below the top of the repository", p)
		}
	}
	out, err := b.in(ctx, append([]string{"ls-tree", "-r", "-z", "--full-tree", commit, "--"}, paths...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		meta, name, _ := strings.Cut(line, "\t")
		fields := strings.Fields(meta)
		switch {
		case line == "":
		case len(fields) != 3 || !fs.ValidPath(name):
			return nil, b.refuse(commit, "it names a directory with %.100q, which is no name of a file", name)
		case fields[0] == "120000":
			return nil, b.refuse(commit, "%.100s is a symbolic link, which is not followed", name)
		case fields[0] == "160000":
			return nil, b.refuse(commit, "%.100s is a submodule, which is not fetched", name)
		case len(all) == maxFiles:
			return nil, b.refuse(commit, "the directories that it names hold more than %d files", maxFiles)
		default:
			all = append(all, entry{fields[2], name})
		}
	}
	for _, p := range paths {
		if !slices.ContainsFunc(all, func(e entry) bool { return e.name == p || strings.HasPrefix(e.name, p+"/") }) {
			return nil, fail.New(fail.NotFound, "it names %.100s, which the commit does not have", p).At(b.s.At(commit)).Do("paths are relative to the document's directory, and links are not followed")
		}
	}
	return all, nil
}

// split takes the output of git cat-file --batch apart: for each file a line with its size, the content, and a new line.
func (b *bench) split(commit string, entries []entry, out []byte) (map[string][]byte, error) {
	all, total := map[string][]byte{}, 0
	for _, e := range entries {
		line, rest, _ := bytes.Cut(out, []byte("\n"))
		fields := strings.Fields(string(line))
		if len(fields) == 2 && fields[0] == e.id {
			return nil, fail.Wrap(fail.Unreachable, errWithheld, "read %.100s", e.name).At(b.s.URL)
		}
		if len(fields) != 3 || fields[0] != e.id {
			return nil, fail.New(fail.Unreachable, "the repository did not send %.100s", e.name).At(b.s.URL)
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size < 0 || size >= len(rest) {
			return nil, fail.New(fail.Internal, "git's answer about %.100s can't be read", e.name).At(b.s.URL)
		}
		if total += size; total > maxBytes {
			return nil, b.refuse(commit, "the files that it names have more than %d MiB", maxBytes>>20)
		}
		all[e.name], out = rest[:size:size], rest[size+1:]
	}
	return all, nil
}
