-- Tables of the shop.
CREATE TABLE IF NOT EXISTS orders (
    id BIGINT PRIMARY KEY,
    state TEXT NOT NULL,
    amount_cents BIGINT NOT NULL,
    fence BIGINT NOT NULL -- the largest token that has written the row
);
CREATE TABLE IF NOT EXISTS events (
    order_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    token BIGINT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (order_id, number)
);
CREATE TABLE IF NOT EXISTS settlements (
    settled_by TEXT NOT NULL,
    orders BIGINT NOT NULL,
    amount_cents BIGINT NOT NULL
);
-- Tables of the payment provider.
CREATE TABLE IF NOT EXISTS charge_requests (
    idempotency_key BIGINT NOT NULL,
    asked_by TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS charges (
    idempotency_key BIGINT PRIMARY KEY,
    amount_cents BIGINT NOT NULL
);
