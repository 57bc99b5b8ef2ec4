DROP VIEW {s}delivery_words;
DROP TABLE {s}setting, {s}pause, {s}program_route, {s}program, {s}audit, {s}approval, {s}run, {s}resolution,
    {s}attempt, {s}delivery, {s}intent;
DROP FUNCTION {s}refuse_change();
