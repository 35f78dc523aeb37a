// Package cloud logs in to an OpenStack cloud as the user's settings say, makes calls with retries where that is safe, and turns what a
// cloud refuses into errors for people.
// It may know nothing of clusters and machines.
package cloud
