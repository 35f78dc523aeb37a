// Package quota reads what a project of a cloud may have and has, and compares it with what is asked for.
// It may know nothing of clusters: who asks counts what is needed.
package quota
