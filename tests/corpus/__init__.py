"""Our own escape corpus (hostile/*.txt) and ordinary functions that must work (ordinary/*.txt), read by reading.py.

A case is a title line `=== name`, directives, and the body of a function in plain Python:
    @each x: a | b        one case for each value; {x} stands for it in name and body
    @import x             import the module that the value of x begins with
    @twice                run in two calls, STEP is 1 and then 2; what the first left must not reach the second
    @spend @ends @large @shape @fd3 @source
                          what the case is after: time or memory, the process's end, volume, odd results, the job
                          socket (descriptor 3), the compiler (the body is an expression whose value is the source)
Without one of these the case steals: it has won when the secret is in what comes back.
CANARY is a file with the secret, SECRET the secret itself, NUMBERS this machine's system calls, PROJECT our directory.
An ordinary case ends in `-> value`, what it must return.
`steal os: x` reads the canary with the os module x, `steal builtins: x` with the dict x, `steal open: x` with x.
"""
