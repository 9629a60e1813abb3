-- The catalog of the lake: a database, its owner, and the role of the collectors. Run once as a superuser:
-- HOPSCOPE_OWNER=… HOPSCOPE_MEMBER=… psql -d postgres -f postgresql.sql
\set ON_ERROR_STOP on
\getenv owner HOPSCOPE_OWNER
\getenv member HOPSCOPE_MEMBER
SET password_encryption = 'scram-sha-256';
CREATE ROLE hopscope_owner LOGIN PASSWORD :'owner';
CREATE ROLE hopscope LOGIN PASSWORD :'member' CONNECTION LIMIT 100;
CREATE DATABASE lake OWNER hopscope_owner;
REVOKE ALL ON DATABASE lake FROM PUBLIC;
GRANT CONNECT ON DATABASE lake TO hopscope;
-- DuckLake knows the errors that it may try again by their English texts
ALTER ROLE hopscope SET lc_messages = 'C';
ALTER ROLE hopscope_owner SET lc_messages = 'C';
-- What the owner makes (`hopscope cluster init`), collectors read and write
\connect lake
REVOKE ALL ON SCHEMA public FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE hopscope_owner GRANT USAGE ON SCHEMAS TO hopscope;
ALTER DEFAULT PRIVILEGES FOR ROLE hopscope_owner GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO hopscope;
ALTER DEFAULT PRIVILEGES FOR ROLE hopscope_owner GRANT USAGE, SELECT ON SEQUENCES TO hopscope;
