// Package marks makes the names and marks of a cluster's resources in a cloud, and reads them back.
// It may know nothing of clouds: whatever carries them is found again by them alone.
package marks
