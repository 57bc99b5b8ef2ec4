// Package dispatchtest proves the dispatch engine on real databases with real
// processes: worker programs that are killed or stopped at a named point, a
// database that is restarted under load, writers that come too late.
//
// What happened is judged by an auditor that shares nothing with the engine. It
// reads the tables with SQL, every single change of a delivery as a trigger of
// its own noted it, and the log of the receiver, a program at the other end of a
// socket.
package dispatchtest
