package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const treeEnv = "NAUPEGOS_TEST_TREE"

// passed returns what a tier came to where it has passed for a tree; nil where it has not, or no tree is named.
func passed(dir, name, tree string) (*tier, error) {
	all, err := load(dir)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Name == name && t.passedFor(tree) {
			return t, nil
		}
	}
	return nil, nil
}

func (t *tier) passedFor(tree string) bool {
	return tree != "" && t.Tree == tree && !t.failed() && t.Left == ""
}

// forget removes what has been kept, but for the tiers that have passed for a tree, where one is named.
func forget(dir, tree string) error {
	if tree == "" {
		return os.RemoveAll(dir)
	}
	if err := os.Remove(filepath.Join(dir, limitsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all, err := load(dir)
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.passedFor(tree) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, t.Name+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
