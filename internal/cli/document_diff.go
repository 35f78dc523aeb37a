package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/store"
)

// warnOfDifference says where a file differs from the document that the store has: somebody else may have changed the cluster since.
func (a *App) warnOfDifference(file string, doc *v1alpha1.Cluster, rec *store.Cluster) error {
	if rec.CreatedAt.IsZero() {
		return nil
	}
	stored, err := v1alpha1.Parse("the stored document of "+rec.Name, rec.Document)
	if err != nil {
		return err
	}
	fields, err := differences(doc, stored)
	if err != nil || len(fields) == 0 {
		return err
	}
	fmt.Fprintf(a.Err, "%s differs from the document that was applied last (naupegos document %s prints that one):\n", file, rec.Name)
	for _, f := range fields {
		fmt.Fprintf(a.Err, "  %s\n", f)
	}
	return nil
}

// differences lists the fields in which two documents differ, by name, defaults included.
func differences(file, stored *v1alpha1.Cluster) ([]string, error) {
	here, err := fieldsOf(file)
	if err != nil {
		return nil, err
	}
	there, err := fieldsOf(stored)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(here)
	maps.Copy(all, there)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if here[name] != there[name] {
			out = append(out, fmt.Sprintf("%s: %s here, %s in the store", name, orNothing(here[name]), orNothing(there[name])))
		}
	}
	return out, nil
}

func orNothing(value string) string {
	if value == "" {
		return "nothing"
	}
	return value
}

// fieldsOf returns a document's values as JSON, by their fields' paths.
func fieldsOf(doc *v1alpha1.Cluster) (map[string]string, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("compare documents: %w", err)
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("compare documents: %w", err)
	}
	out := map[string]string{}
	return out, flatten(out, "", tree)
}

func flatten(to map[string]string, path string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		for key, below := range v {
			if err := flatten(to, path+"."+key, below); err != nil {
				return err
			}
		}
		return nil
	case []any:
		for i, below := range v {
			if err := flatten(to, fmt.Sprintf("%s[%d]", path, i), below); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := json.Marshal(v)
	if err == nil {
		to[path[1:]] = string(text)
	}
	return err
}
