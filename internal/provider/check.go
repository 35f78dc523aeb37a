package provider

// Result is the outcome of a check.
type Result string

// The outcomes.
const (
	Fine    Result = "ok"
	Warning Result = "warn" // works, or may work; a person should look at it
	Failing Result = "fail" // must be corrected before a cluster can be built or changed
)

// Check is the outcome of one check before any change.
type Check struct {
	Name   string `json:"name"`   // "memory"
	Result Result `json:"result"` // ok, warn or fail
	Detail string `json:"detail"` // finding, and the remedy unless the result is ok
}
