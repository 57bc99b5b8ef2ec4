DROP VIEW {s}delivery_words;
DROP TABLE {s}setting, {s}pause, {s}program_route, {s}program, {s}audit, {s}approval, {s}run, {s}resolution,
    {s}attempt, {s}delivery, {s}intent;
DROP FUNCTION {s}refuse_change(), {s}intent_fits(), {s}delivery_fits();
DROP FUNCTION {s}enqueue_message(integer, text, json, text, uuid, text, integer, text, timestamptz), {s}wake(),
    {s}canonical_json(json, integer), {s}canonical_number(text);
