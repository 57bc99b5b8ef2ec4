package postgres

// statements are the engine's SQL texts with the schema filled in. Each stands as
// a constant beside the function that uses it.
type statements struct {
	claim, claimRefs, due, dueRefs, held        string
	plain, apply, forget, lockSubjects, forgets string
	appendLate, load, history                   string
	overdue, routes, lockEnded, prune           string
	waiting                                     string
	insert, insertGiven, stored, unwrite        string
	insertOne, insertOneGiven                   string
	openRun, sealRun, loadRun                   string
	propose, lockApproval, decide, consume      string
	approval, undecided                         string
	migrations, listed                          string
	register, serves, unregister, serving       string

	deskStatements
}

func (e *engine) statements() statements {
	return statements{
		claim:          e.expand(claimSQL),
		claimRefs:      e.expand(claimRefsSQL),
		due:            e.expand(dueSQL),
		dueRefs:        e.expand(dueRefsSQL),
		held:           e.expand(heldSQL),
		plain:          e.expand(plainSQL),
		apply:          e.expand(applySQL),
		forget:         e.expand(forgetSQL),
		lockSubjects:   e.expand(lockSubjectsSQL),
		forgets:        e.expand(forgetPeopleSQL),
		appendLate:     e.expand(appendSQL),
		load:           e.expand(loadSQL),
		history:        e.expand(historySQL),
		overdue:        e.expand(overdueSQL),
		routes:         e.expand(routesSQL),
		waiting:        e.expand(waitingSQL),
		lockEnded:      e.expand(lockEndedSQL),
		prune:          e.expand(pruneSQL),
		insert:         e.expand(insertSQL),
		insertGiven:    e.expand(insertGivenSQL),
		insertOne:      e.expand(insertOneSQL),
		insertOneGiven: e.expand(insertOneGivenSQL),
		stored:         e.expand(storedSQL),
		unwrite:        e.expand(unwriteSQL),
		openRun:        e.expand(openRunSQL),
		sealRun:        e.expand(sealRunSQL),
		loadRun:        e.expand(loadRunSQL),
		propose:        e.expand(proposeSQL),
		lockApproval:   e.expand(lockApprovalSQL),
		decide:         e.expand(decideSQL),
		consume:        e.expand(consumeSQL),
		approval:       e.expand(approvalSQL),
		undecided:      e.expand(openApprovalsSQL),
		migrations:     e.expand(migrationsSQL),
		listed:         e.expand(listedSQL),
		register:       e.expand(registerSQL),
		serves:         e.expand(servesSQL),
		unregister:     e.expand(unregisterSQL),
		serving:        e.expand(servingSQL),

		deskStatements: e.deskStatements(),
	}
}

// deskStatements are those that only operators use.
type deskStatements struct {
	resolve, pause, resume, audit               string
	review, walkOpen, walkLoops, walkEnded      string
	walkSubject, chains, logs, resolutions      string
	audits, auditsOf, pauses                    string
	tallyOpen, tallyEnded, tallyLoops, inReview string
	recent                                      string
}

func (e *engine) deskStatements() deskStatements {
	return deskStatements{
		resolve:     e.expand(resolveSQL),
		pause:       e.expand(pauseSQL),
		resume:      e.expand(resumeSQL),
		audit:       e.expand(auditSQL),
		review:      e.expand(reviewSQL),
		walkOpen:    e.expand(walkOpenSQL),
		walkLoops:   e.expand(walkLoopsSQL),
		walkEnded:   e.expand(walkEndedSQL),
		walkSubject: e.expand(walkSubjectSQL),
		chains:      e.expand(chainsSQL),
		logs:        e.expand(logsSQL),
		resolutions: e.expand(resolutionsSQL),
		audits:      e.expand(auditsSQL),
		auditsOf:    e.expand(auditsOfSQL),
		pauses:      e.expand(pausesSQL),
		tallyOpen:   e.expand(tallyOpenSQL),
		tallyEnded:  e.expand(tallyEndedSQL),
		tallyLoops:  e.expand(tallyLoopsSQL),
		inReview:    e.expand(inReviewSQL),
		recent:      e.expand(recentSQL),
	}
}
