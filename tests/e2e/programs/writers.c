/* Memory that is written to in all ways: asked for at the two lines that it prints. */
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct node {
    long value;
    struct node *next;
};

/* Not static: the compiler is to leave them all where they are. */
long plain = 1, initial = 5, inherited = 7, own = 1;
struct node second = { 2, NULL }, first = { 1, &second };
char line[64];
long untouched[4096];
long *shared;
volatile long seen;

static void say(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0) {
        err(1, "write");
    }
}

static void fill(void)
{
    int ends[2];

    if (pipe(ends) < 0 || write(ends[1], "from a pipe", 11) != 11 ||
        read(ends[0], line, sizeof(line)) != 11) {
        err(1, "pipe");
    }
}

static void child(void)
{
    own = 2;
    *shared = 9;
    say("child\n");
    exit(0);
}

int main(void)
{
    struct node *node = &first;
    const char *out = getenv("out");

    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fill();
    plain = 2;
    node->next->value = 3;
    inherited = 8;
    seen = untouched[2048] + initial;
    if (fork() == 0) {
        child();
    }
    wait(NULL);
    say("parent\n");
    plain = 4;
    say("late\n");
    return !out || close(open(out, O_WRONLY | O_CREAT, 0644)) < 0;
}
