package provider

// Result says how a check ended.
type Result string

// The results.
const (
	Fine    Result = "ok"
	Warning Result = "warn" // works, or may work; somebody should look
	Failing Result = "fail" // a cluster can't be built or changed before this is mended
)

// Check is one thing that was looked at before anything is done.
type Check struct {
	Name   string `json:"name"`   // "memory"
	Result Result `json:"result"` // ok, warn or fail
	Detail string `json:"detail"` // what was found, and what to do where the result is not ok
}
