import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.projectfloodlight.openflow.protocol.OFFactories;
import org.projectfloodlight.openflow.protocol.OFMessage;

/** openflowj as a subject: DIR VERSION KIND DEED COUNT; prints nanoseconds each, after a second of the same. */
final class Cost {
    static OFMessage kept;

    public static void main(String[] args) throws Exception {
        byte[] bytes = Files.readAllBytes(Path.of(args[0], args[1] + "_" + args[2] + ".bin"));
        boolean reads = args[3].equals("read");
        if (!reads && !args[3].equals("write")) System.exit(2);
        ByteBuf from = Unpooled.wrappedBuffer(bytes);
        ByteBuf to = Unpooled.buffer(1 << 16);
        OFMessage message = OFFactories.getGenericReader().readFrom(from);
        message.writeTo(to);
        byte[] again = new byte[to.readableBytes()];
        to.readBytes(again);
        if (!Arrays.equals(again, bytes)) System.err.println("other bytes were written than were read");
        int count = Integer.parseInt(args[4]);
        for (long start = System.nanoTime(); System.nanoTime() - start < 1_000_000_000L; ) {
            repeat(1000, message, reads ? from : null, to);
        }
        long start = System.nanoTime();
        repeat(count, message, reads ? from : null, to);
        double took = (double) (System.nanoTime() - start) / count;
        System.out.printf("%.2f%n", took);
    }

    /** Reads `from`; without it, writes `message`. */
    static void repeat(int count, OFMessage message, ByteBuf from, ByteBuf to) throws Exception {
        for (int n = 0; n < count; n++) {
            if (from != null) {
                from.readerIndex(0);
                kept = OFFactories.getGenericReader().readFrom(from);
            } else {
                to.clear();
                message.writeTo(to);
            }
        }
    }
}
