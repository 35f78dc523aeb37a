// Package cloud logs in to an OpenStack cloud with the user's settings, makes calls with retries if they are safe to repeat, and turns the
// cloud's refusals into readable errors. It must not know about clusters and machines.
package cloud
