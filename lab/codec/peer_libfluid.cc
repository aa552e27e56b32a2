// libfluid_msg as a subject: DIR VERSION KIND DEED COUNT; prints nanoseconds each. 1.0 and 1.3.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "fluid/of10msg.hh"
#include "fluid/of13msg.hh"

using namespace fluid_msg;

static std::vector<uint8_t> bytes;

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

template <class Msg> static void reads()
{
    Msg msg;
    check(msg.unpack(bytes.data()) == 0, "unpack");
}

template <class Msg> static std::function<void()> writes()
{
    auto msg = std::make_shared<Msg>();
    check(msg->unpack(bytes.data()) == 0, "unpack");
    return [msg] {
        uint8_t *buffer = msg->pack();
        check(msg->length() == bytes.size(), "the length of what was written");
        OFMsg::free_buffer(buffer);
    };
}

int main(int argc, char **argv)
{
    check(argc == 6, "the command line");
    std::string version = argv[2], kind = argv[3], deed = argv[4], name = version + " " + kind + " " + deed;
    std::ifstream file(std::string(argv[1]) + "/" + version + "_" + kind + ".bin", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
    std::function<void()> once;
    if (name == "1.0 packet_in read") once = reads<of10::PacketIn>;
    if (name == "1.3 packet_in read") once = reads<of13::PacketIn>;
    if (name == "1.0 flow_mod read") once = reads<of10::FlowMod>;
    if (name == "1.3 flow_mod read") once = reads<of13::FlowMod>;
    if (name == "1.0 flow_mod write") once = writes<of10::FlowMod>();
    if (name == "1.3 flow_mod write") once = writes<of13::FlowMod>();
    if (name == "1.0 packet_out write") once = writes<of10::PacketOut>();
    if (name == "1.3 packet_out write") once = writes<of13::PacketOut>();
    if (name == "1.0 flow_removed read") once = reads<of10::FlowRemoved>;
    if (name == "1.3 flow_removed read") once = reads<of13::FlowRemoved>;
    if (name == "1.0 flow_stats read") once = reads<of10::StatsReplyFlow>;
    if (name == "1.3 flow_stats read") once = reads<of13::MultipartReplyFlow>;
    if (!once) return 2;
    long count = atol(argv[5]);
    auto start = std::chrono::steady_clock::now();
    for (long n = 0; n < count; n++) once();
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    printf("%.2f\n", took.count() / count);
}
