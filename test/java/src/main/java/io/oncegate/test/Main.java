package io.oncegate.test;

/**
 * Runs one of the programs: {@code produce}, {@code payments}, {@code transactions}, {@code fence}
 * or {@code consume}. Arguments are name=value; those that a program doesn't know are properties of
 * its Kafka client. Each event is one JSON object on a line of standard output.
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(args);
        switch (args.length == 0 ? "" : args[0]) {
            case "produce" -> Produce.run(arguments);
            case "payments" -> VulnerablePaymentProducer.run(arguments);
            case "transactions" -> Transactions.run(arguments);
            case "fence" -> Fence.run(arguments);
            case "consume" -> Consume.run(arguments);
            default -> throw new IllegalArgumentException("the first argument names a program");
        }
    }
}
