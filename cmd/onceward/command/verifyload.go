package command

import (
	"context"

	"github.com/onceward/onceward/proof"
	"github.com/onceward/onceward/proof/simulated"
)

// loadSubjects reads declared providers and actions and puts a simulated
// provider before each.
func loadSubjects(_ context.Context, paths []string) (subjects []proof.Subject, closeAll func() error, err error) {
	set, err := loadDefinitions(paths)
	if err != nil {
		return nil, nil, err
	}
	if err := checkDefinitions(set); err != nil {
		return nil, nil, err
	}
	subjects, err = simulated.Subjects(set)
	return subjects, func() error { return nil }, err
}
