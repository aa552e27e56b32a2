import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.projectfloodlight.openflow.protocol.OFFactories;
import org.projectfloodlight.openflow.protocol.OFMessage;

/** openflowj as a subject: DIR VERSION KIND DEED COUNT; prints nanoseconds each, of the second of two runs. */
final class Cost {
    static OFMessage kept;

    public static void main(String[] args) throws Exception {
        byte[] octets = Files.readAllBytes(Path.of(args[0], args[1] + "_" + args[2] + ".bin"));
        boolean reads = args[3].equals("read");
        if (!reads && !args[3].equals("write")) System.exit(2);
        ByteBuf from = Unpooled.wrappedBuffer(octets);
        ByteBuf to = Unpooled.buffer(1 << 16);
        OFMessage message = OFFactories.getGenericReader().readFrom(from);
        message.writeTo(to);
        byte[] again = new byte[to.readableBytes()];
        to.readBytes(again);
        if (!Arrays.equals(again, octets)) System.err.println("other octets were written than were read");
        int count = Integer.parseInt(args[4]);
        double took = 0;
        for (int run = 0; run < 2; run++) {
            long start = System.nanoTime();
            for (int n = 0; n < count; n++) {
                if (reads) {
                    from.readerIndex(0);
                    kept = OFFactories.getGenericReader().readFrom(from);
                } else {
                    to.clear();
                    message.writeTo(to);
                }
            }
            took = (double) (System.nanoTime() - start) / count;
        }
        System.out.printf("%.2f%n", took);
    }
}
