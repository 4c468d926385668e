package example;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;

/**
 * What is kept of orders, in SQLite: the newest event's word on each. (epoch, version) of an order only ever rises,
 * whatever comes, however often and in whatever order.
 */
final class Kept implements AutoCloseable {
    private static final String TABLE = """
            CREATE TABLE IF NOT EXISTS orders (
                key TEXT PRIMARY KEY, epoch INTEGER NOT NULL, version INTEGER NOT NULL, data TEXT NOT NULL
            ) STRICT, WITHOUT ROWID""";
    private static final String UPSERT = """
            INSERT INTO orders VALUES (?, ?, ?, ?)
            ON CONFLICT (key) DO UPDATE SET epoch = excluded.epoch, version = excluded.version, data = excluded.data
            WHERE (excluded.epoch, excluded.version) > (epoch, version)""";

    private final ObjectMapper json = new ObjectMapper();
    private final Connection db;

    Kept(String path) throws SQLException {
        db = DriverManager.getConnection("jdbc:sqlite:" + path);
        try (var statement = db.createStatement()) {
            statement.execute("PRAGMA journal_mode = WAL");
            statement.execute("PRAGMA synchronous = FULL");
            statement.execute(TABLE);
        }
        db.setAutoCommit(false);
    }

    /** Takes one event; false if it is not above what is kept. It is not durable before {@link #save}. */
    boolean take(String key, JsonNode data) throws SQLException {
        reportGap(key, data);
        try (PreparedStatement upsert = db.prepareStatement(UPSERT)) {
            upsert.setString(1, key);
            upsert.setLong(2, data.get("epoch").asLong());
            upsert.setLong(3, data.get("version").asLong());
            upsert.setString(4, data.toString());
            return upsert.executeUpdate() > 0;
        }
    }

    void save() throws SQLException {
        db.commit();
    }

    private void reportGap(String key, JsonNode data) throws SQLException {
        long epoch = data.get("epoch").asLong();
        long version = data.get("version").asLong();
        long before = 0;
        try (var select = db.prepareStatement("SELECT epoch, version FROM orders WHERE key = ?")) {
            select.setString(1, key);
            try (var row = select.executeQuery()) {
                if (row.next()) {
                    if (row.getLong(1) != epoch) {
                        return;
                    }
                    before = row.getLong(2);
                }
            }
        }
        if (version > before + 1) {
            System.err.printf("gap: %s goes from version %d to %d%n", key, before, version);
        }
    }

    void show() throws Exception {
        try (var select = db.createStatement(); var rows = select.executeQuery("SELECT key, data FROM orders ORDER BY key")) {
            while (rows.next()) {
                JsonNode data = json.readTree(rows.getString(2));
                ObjectNode line = json.createObjectNode().put("order", rows.getString(1));
                for (String name : new String[] {"epoch", "version", "state", "fulfil"}) {
                    line.set(name, data.get(name));
                }
                System.out.println(line);
            }
        }
    }

    @Override
    public void close() throws SQLException {
        db.close();
    }
}
