#include <iostream>
#include <thread>

int main()
{
    std::thread([] { std::cout << "a thread\n"; }).join();
}
