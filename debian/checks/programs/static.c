#include <math.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    printf("%s %g\n", argv[0], sqrt(argc));
    return 0;
}
