-- Views for people. They cost nothing when runs are written: everything is taken out of the turns when asked for.
-- They are read by whatever `sqlite3` a system has, so they use nothing that is newer than SQLite 3.38.

CREATE VIEW runs AS
SELECT r.id AS run, r.flow, h.state,
       strftime('%Y-%m-%d %H:%M:%f', r.created / 1000.0, 'unixepoch') AS created,
       strftime('%Y-%m-%d %H:%M:%f', h.updated / 1000.0, 'unixepoch') AS updated,
       round((h.updated - r.created) / 1000.0, 3) AS seconds,
       h.cost_microusd / 1e6 AS cost_usd,
       h.input_tokens + h.cached_tokens + h.output_tokens AS tokens,
       h.last AS turns,
       strftime('%Y-%m-%d %H:%M:%f', h.wake_at / 1000.0, 'unixepoch') AS wake_at,
       o.pid AS owner_pid, r.start_key, r.forked_from, r.forked_at, d.output, d.error, d.uncompensated, r.graph
FROM run r JOIN head h ON h.run = r.key
LEFT JOIN detail d ON d.run = r.key LEFT JOIN owner o ON o.key = h.owner
ORDER BY r.created DESC, r.key DESC;

-- Which rows of turns belong to a run: its own, and the prefix that it was forked from.
CREATE VIEW lineage AS
WITH RECURSIVE part(run, id, key, upto, base, base_turn) AS (
  SELECT key, id, key, 9223372036854775807, base, base_turn FROM run
  UNION ALL
  SELECT p.run, p.id, b.key, min(p.upto, p.base_turn), b.base, b.base_turn FROM part p JOIN run b ON b.key = p.base)
SELECT run, id, key, upto FROM part;

CREATE VIEW events AS
SELECT l.id AS run,
       json_extract(line.value, '$.turn') AS turn,
       strftime('%Y-%m-%d %H:%M:%f', json_extract(line.value, '$.at') / 1000.0, 'unixepoch') AS at,
       e.key AS position,
       json_extract(e.value, '$.type') AS type,
       json_extract(e.value, '$.node') AS node,
       json_extract(e.value, '$.path') AS path,
       e.value AS event,
       json_extract(line.value, '$.at') AS at_ms
FROM lineage l CROSS JOIN turn t ON t.run = l.key
CROSS JOIN json_each('[' || replace(t.body, char(10), ',') || ']') line
CROSS JOIN json_each(line.value, '$.events') e
WHERE t.first <= l.upto AND json_extract(line.value, '$.turn') <= l.upto;

CREATE VIEW steps AS
SELECT run, max(path) AS path,
       coalesce(max(CASE WHEN type = 'settled' THEN json_extract(event, '$.state') END), 'running') AS state,
       round((max(CASE WHEN type = 'settled' THEN at_ms END) - min(at_ms)) / 1000.0, 3) AS seconds,
       coalesce(sum(CASE WHEN type = 'attempt_finished' THEN json_extract(event, '$.usage.cost_microusd') END), 0) / 1e6
         AS cost_usd,
       coalesce(sum(CASE WHEN type = 'attempt_finished' THEN
         json_extract(event, '$.usage.input_tokens') + json_extract(event, '$.usage.cached_tokens')
         + json_extract(event, '$.usage.output_tokens') END), 0) AS tokens,
       count(CASE WHEN type = 'attempt_started' THEN 1 END) AS attempts,
       max(CASE WHEN type = 'settled' THEN json_extract(event, '$.error.message') END) AS error,
       node, min(turn) AS first_turn
FROM events WHERE node IS NOT NULL AND node > 0
GROUP BY run, node HAVING max(path) IS NOT NULL ORDER BY run, first_turn, node;

CREATE VIEW costs AS
SELECT r.flow, date(r.created / 1000, 'unixepoch') AS day, count(*) AS runs,
       sum(h.cost_microusd) / 1e6 AS cost_usd, sum(h.input_tokens) AS input_tokens,
       sum(h.cached_tokens) AS cached_tokens, sum(h.output_tokens) AS output_tokens
FROM run r JOIN head h ON h.run = r.key GROUP BY r.flow, day ORDER BY day DESC, cost_usd DESC;

CREATE VIEW waits AS
SELECT r.id AS run, r.flow, json_extract(w.value, '$.on') AS "on", json_extract(w.value, '$.path') AS path,
       strftime('%Y-%m-%d %H:%M:%f', json_extract(w.value, '$.until') / 1000.0, 'unixepoch') AS until, w.value AS wait
FROM head h JOIN run r ON r.key = h.run CROSS JOIN json_each(h.waits) w;

CREATE VIEW questions AS
SELECT q.id, r.id AS run, r.flow, q.path, q.topic, q.ask, q.form, q."to",
       strftime('%Y-%m-%d %H:%M:%f', q.asked / 1000.0, 'unixepoch') AS asked,
       strftime('%Y-%m-%d %H:%M:%f', q.until / 1000.0, 'unixepoch') AS until
FROM question q JOIN run r ON r.key = q.run ORDER BY q.asked, q.key;
