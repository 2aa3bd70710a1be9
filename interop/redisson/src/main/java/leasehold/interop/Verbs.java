package leasehold.interop;

/** What can be done with one sort of object. */
interface Verbs {
    /**
     * Does what the command says, on the thread that calls, however long that takes.
     *
     * @return what to answer, or null when there is nothing to say
     */
    Object run(Command command) throws Exception;
}
