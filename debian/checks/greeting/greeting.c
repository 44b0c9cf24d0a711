#include "greeting.h"
#include <stdio.h>

int main(void)
{
    puts(GREETING " world");
    return 0;
}
