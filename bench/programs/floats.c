// SPDX-License-Identifier: MIT
/* Five bodies that attract each other, for argv[1] steps: double precision, roots, divisions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BODIES 5

struct body {
	double place[3], speed[3], mass;
};

static void step(struct body *bodies, double time)
{
	for (int i = 0; i < BODIES; i++) {
		for (int j = 0; j < BODIES; j++) {
			double apart[3], square = 1e-3, pull;

			if (i == j)
				continue;
			for (int k = 0; k < 3; k++) {
				apart[k] = bodies[j].place[k] - bodies[i].place[k];
				square += apart[k] * apart[k];
			}
			pull = bodies[j].mass * time / (square * sqrt(square));
			for (int k = 0; k < 3; k++)
				bodies[i].speed[k] += apart[k] * pull;
		}
	}
	for (int i = 0; i < BODIES; i++)
		for (int k = 0; k < 3; k++)
			bodies[i].place[k] += bodies[i].speed[k] * time;
}

int main(int argc, char **argv)
{
	long steps = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	struct body bodies[BODIES];

	for (int i = 0; i < BODIES; i++) {
		bodies[i] = (struct body) {
			.place = { i, i * i % 3, i % 2 },
			.speed = { 0.1 * i, 0.2, -0.1 * i },
			.mass = 1.0 / (i + 1),
		};
	}
	for (long i = 0; i < steps; i++)
		step(bodies, 1e-3);
	printf("%.9f %.9f\n", bodies[0].place[0], bodies[BODIES - 1].place[2]);
	return EXIT_SUCCESS;
}
