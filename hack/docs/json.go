package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
)

// jsonPage is a section of the page about JSON output: one command, and the types that it prints.
type jsonPage struct {
	title, text string
	types       []goType
}

// goType names a Go type and the file that declares it.
type goType struct{ file, name string }

var jsonPages = []jsonPage{
	{"Errors", "With `-o json` an error is one object on standard error. Exit statuses stay the same.", []goType{{"internal/cli/output/json.go", "failure"}}},
	{"doctor", "`naupegos doctor -o json` prints a list of checks.", []goType{{"internal/provider/check.go", "Check"}}},
	{"plan", "`naupegos plan -o json` prints the plan. It exits with 2 where `changes` is true.", []goType{
		{"internal/plan/show/json.go", "planJSON"}, {"internal/plan/show/json.go", "stepJSON"},
		{"internal/plan/delta/delta.go", "Delta"}, {"internal/plan/delta/delta.go", "Content"}, {"internal/plan/delta/lines.go", "Hunk"}}},
	{"diff", "`naupegos diff NAME -o json` prints the differences between a document and its cluster; `Delta` is described under plan. It exits with 2 where `differs` is true.", []goType{
		{"internal/cli/differ/differ.go", "differences"}, {"internal/cli/differ/differ.go", "part"}}},
	{"Progress", "`--progress json` writes one object a line to standard error while a plan runs. `event` is begin, step, note, end or error (the fields of an error, below Errors).", []goType{
		{"internal/plan/show/jsonlines.go", "lineJSON"}}},
	{"status", "`naupegos status -o json` prints a list of clusters, `naupegos status NAME -o json` one cluster in full.", []goType{
		{"internal/operate/list.go", "Row"}, {"internal/cluster/report/status.go", "Status"}, {"internal/cluster/report/status.go", "MachineStatus"}, {"internal/cluster/report/state.go", "Cause"},
		{"internal/cluster/report/state.go", "Quorum"}, {"internal/cluster/report/insight.go", "Member"}, {"internal/cluster/report/status.go", "Difference"}}},
	{"describe", "`naupegos describe NAME [MACHINE] -o json` prints one object; `status` is as above.", []goType{
		{"internal/operate/describe.go", "Description"}, {"internal/kube/insight.go", "NodeLoad"}, {"internal/kube/insight.go", "Condition"}, {"internal/kube/insight.go", "Event"}, {"internal/operate/describe.go", "RunLine"}}},
	{"events", "`naupegos events NAME -o json` prints a list of events; with `--watch` one event a line.", []goType{{"internal/operate/describe.go", "Happened"}}},
	{"top", "`naupegos top --once -o json` prints one frame.", []goType{{"internal/cli/watch/frame.go", "Frame"}, {"internal/cli/watch/frame.go", "TopCluster"}, {"internal/cli/watch/frame.go", "TopMachine"}}},
	{"renew", "`naupegos renew NAME... -o json` prints a list of clusters.", []goType{{"internal/cli/renew.go", "renewal"}}},
	{"repair", "`naupegos repair NAME -o json` prints what was done in one round.", []goType{{"internal/cli/upkeep.go", "repaired"}}},
	{"history", "`naupegos history [NAME] -o json` prints a list of runs, `naupegos history NAME RUN -o json` one run with its steps.", []goType{
		{"internal/plan/record.go", "RunRecord"}, {"internal/plan/record.go", "StepRecord"}, {"internal/plan/record.go", "Retry"}}},
	{"machine list", "`naupegos machine list NAME -o json` prints a list of machines.", []goType{{"internal/cli/machine.go", "machineRow"}}},
	{"machine list, show and so on, of a server", "`naupegos machine list -o json` prints a list of physical machines, `machine show MACHINE -o json` one in full, `machine locks -o json` a list of places, `machine schedule CLUSTER -o json` who is given what.", []goType{
		{"internal/server/routes/client/client.go", "Machine"}, {"internal/server/routes/client/client.go", "Detail"}, {"internal/store/metal/contract.go", "Boot"}, {"internal/store/metal/contract.go", "Event"},
		{"internal/store/metal/contract.go", "Report"}, {"internal/store/metal/contract.go", "Slot"}, {"internal/registry/schedule.go", "Decision"}, {"internal/registry/schedule.go", "Given"}}},
	{"test", "`naupegos test NAME -o json` prints a list of proofs.", []goType{{"internal/cluster/addons/prove.go", "Proof"}}},
	{"certs list", "`naupegos certs list NAME -o json` prints a list of certificates.", []goType{{"internal/pki/list.go", "CertInfo"}}},
	{"import", "`naupegos import NAME -o json` prints what was found. `document` has the form of [the Cluster document](cluster.md). It exits with 4 where `adoptable` is false.", []goType{
		{"internal/cluster/adopt/show.go", "Report"}, {"internal/cluster/adopt/gap.go", "Gap"}}},
	{"store backup", "`naupegos store backup FILE -o json` prints what was backed up.", []goType{
		{"internal/cli/store.go", "backedUp"}, {"internal/store/backup.go", "Kept"}}},
	{"store restore", "`naupegos store restore FILE -o json` prints what was restored.", []goType{{"internal/store/restore.go", "Restored"}}},
	{"store move", "`naupegos store move TO -o json` prints what was moved.", []goType{{"internal/store/move.go", "Moved"}}},
	{"server webhook list", "`naupegos server webhook list -o json` prints a list of objects with the keys of both types.", []goType{
		{"internal/server/notify/webhook.go", "Webhook"}, {"internal/server/notify/webhook.go", "Listed"}}},
	{"bundle list, bundle inspect, bundle add", "`naupegos bundle list -o json` prints `Listed`, `naupegos bundle inspect BUNDLE -o json` a bundle, or, for the name of a set of images, an `AddedSet`. `naupegos bundle add … -o json` prints `Added`.", []goType{
		{"internal/cli/bundling/bundle.go", "Listed"}, {"internal/bundle/sets.go", "AddedSet"}, {"internal/bundle/sets.go", "Set"}, {"internal/bundle/sets.go", "SetImage"}, {"internal/bundle/sets.go", "SetBlob"}, {"internal/bundle/images/add.go", "Added"},
		{"internal/bundle/manifest.go", "Manifest"}, {"internal/bundle/manifest.go", "Component"}, {"internal/bundle/manifest.go", "Artifact"}, {"internal/bundle/manifest.go", "Image"}}},
}

// jsonOutput renders the page about what commands print with -o json, from the types and their comments.
func jsonOutput(root string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(generated + `# JSON output

Commands that print a table take ` + "`-o json` and `-o yaml`" + `, with the same keys. Results go to standard output, everything else to standard
error. Keys may be added; a key that is here is neither renamed nor given another meaning without a line in the changelog. Times are RFC 3339
in UTC. A key that is marked "optional" is absent where its value would be empty.

Each object begins with ` + "`schemaVersion`" + `, the number 1, which grows when a key is renamed or gets another meaning. What is called a list
below is an object with the list under ` + "`items`" + `.
`)
	for _, p := range jsonPages {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", p.title, p.text)
		for _, t := range p.types {
			if err := t.table(root, &b); err != nil {
				return nil, err
			}
		}
	}
	return b.Bytes(), nil
}

// table writes a table of the type's keys.
func (t goType) table(root string, b *bytes.Buffer) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filepath.Join(root, t.file), nil, parser.ParseComments)
	if err != nil {
		return err
	}
	var fields *ast.FieldList
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSpec); ok && s.Name.Name == t.name {
			if st, ok := s.Type.(*ast.StructType); ok {
				fields = st.Fields
			}
		}
		return fields == nil
	})
	if fields == nil {
		return fmt.Errorf("%s declares no struct %s", t.file, t.name)
	}
	fmt.Fprintf(b, "\n`%s`:\n\n| key | type | meaning |\n|---|---|---|\n", title(t.name))
	for _, f := range fields.List {
		if err := row(fset, b, f); err != nil {
			return fmt.Errorf("%s: %s: %w", t.file, t.name, err)
		}
	}
	return nil
}

// row writes the row of one key; fields that are not printed have no row.
func row(fset *token.FileSet, b *bytes.Buffer, f *ast.Field) error {
	if f.Tag == nil {
		return nil
	}
	key, options, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
	if key == "" || key == "-" {
		return nil
	}
	var typ bytes.Buffer
	if err := printer.Fprint(&typ, fset, f.Type); err != nil {
		return err
	}
	meaning := strings.TrimSpace(strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " "))
	if strings.HasPrefix(options, "omit") {
		meaning = strings.TrimSuffix("optional. "+meaning, ". ")
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", key, jsonType(typ.String()), strings.ReplaceAll(meaning, "|", `\|`))
	return nil
}

// jsonType returns the JSON type of a Go type.
func jsonType(t string) string {
	t = strings.TrimPrefix(strings.TrimPrefix(t, "*"), "plan.")
	switch {
	case strings.HasPrefix(t, "[]"):
		return "list of " + jsonType(t[2:])
	case strings.HasPrefix(t, "map["):
		_, value, _ := strings.Cut(t, "]")
		return "object, values: " + jsonType(value)
	}
	switch t {
	case "string":
		return "string"
	case "bool":
		return "boolean"
	case "int", "int64", "float64":
		return "number"
	case "time.Time":
		return "time"
	case "Action", "Disruption", "StepState", "Outcome":
		return "string"
	}
	return "`" + title(t) + "`"
}

// title returns the name of a type on the page: planJSON and stepJSON without their suffix.
func title(t string) string {
	if i := strings.LastIndex(t, "."); i >= 0 {
		t = t[i+1:]
	}
	t = strings.TrimSuffix(t, "JSON")
	return strings.ToUpper(t[:1]) + t[1:]
}
